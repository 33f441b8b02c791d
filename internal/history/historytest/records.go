package historytest

import (
	"crypto/rand"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

var hows = []history.How{history.Solved, history.Discarded, history.Failed, history.Refused, history.Lost}

// noon returns yesterday's noon in UTC. Each store keeps the records of yesterday.
func noon() time.Time { return dayOf(time.Now()).Add(-12 * time.Hour) }

// record returns a record that ended at the given time, and applies the functions to it. Its sitekey
// and its target are unique unless a function changes them. A function can set only the first part
// of the ID; record appends the identity.
func record(ended time.Time, changes ...func(*history.Record)) history.Record {
	r := history.Record{
		Target: "target-" + strings.ToLower(rand.Text()), Owner: "owner@example.com",
		Type: captcha.RecaptchaV2, Sitekey: rand.Text(), Pageurl: "https://staging.example.com/login",
		Provider: "provider", Choice: "ordered", Task: "74327409378", How: history.Solved,
		Placed: ended.Add(-20_345 * time.Millisecond), Submitted: ended.Add(-20_123 * time.Millisecond), Ended: ended,
		Solved: ended.Add(-5 * time.Second), Polls: 3, Price: 2_990_000,
	}
	for _, change := range changes {
		change(&r)
	}
	r.Identity = captcha.Identity{Type: r.Type, Sitekey: r.Sitekey, Pageurl: r.Pageurl}.ID()
	if r.ID == "" {
		r.ID = rand.Text()
	}
	r.ID += "." + string(r.Identity)
	return r
}

func withSitekey(sitekey string) func(*history.Record) {
	return func(r *history.Record) { r.Sitekey = sitekey }
}

// withID returns a function that sets the first part of a record's ID.
func withID(order string) func(*history.Record) {
	return func(r *history.Record) { r.ID = order }
}

// withEnd returns a function that sets how a record's order ended, and the fields that depend on
// this.
func withEnd(how history.How) func(*history.Record) {
	return func(r *history.Record) {
		r.How = how
		switch how {
		case history.Refused:
			r.Submitted, r.Solved, r.Task, r.Polls, r.Code, r.Price = time.Time{}, time.Time{}, "", 0, "ERROR_WRONG_GOOGLEKEY", 0
		case history.Failed:
			r.Solved, r.Code = time.Time{}, "ERROR_CAPTCHA_UNSOLVABLE"
		case history.Lost:
			r.Solved, r.Task = time.Time{}, ""
		case history.Solved, history.Discarded:
		}
	}
}

// several returns n records that end one second apart, the newest first. It applies the functions to
// each record.
func several(n int, newest time.Time, changes ...func(*history.Record)) []history.Record {
	records := make([]history.Record, n)
	for i := range records {
		records[i] = record(newest.Add(-time.Duration(i)*time.Second), changes...)
	}
	return records
}
