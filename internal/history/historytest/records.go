package historytest

import (
	"crypto/rand"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// hows are all ends of an order.
var hows = []history.How{history.Solved, history.Discarded, history.Failed, history.Refused, history.Lost}

// noon is the noon of yesterday in UTC. Each store keeps that day, and it does not change during a test.
func noon() time.Time { return dayOf(time.Now()).Add(-12 * time.Hour) }

// record returns the record of a solve that ended at a time. Its sitekey and its target are unique unless they are changed.
// If the ID is set, it is the order's part; the identity is added.
func record(ended time.Time, changes ...func(*history.Record)) history.Record {
	r := history.Record{
		Target: "target-" + strings.ToLower(rand.Text()), Owner: "owner@example.com",
		Type: captcha.RecaptchaV2, Sitekey: rand.Text(), Pageurl: "https://staging.example.com/login",
		Provider: "provider", Task: "74327409378", How: history.Solved,
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

// of gives a record a sitekey.
func of(sitekey string) func(*history.Record) {
	return func(r *history.Record) { r.Sitekey = sitekey }
}

// named names a record's order.
func named(order string) func(*history.Record) {
	return func(r *history.Record) { r.ID = order }
}

// ending gives a record another end, with what belongs to it.
func ending(how history.How) func(*history.Record) {
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

// several are n records of the same kind, a second apart, the first one newest.
func several(n int, newest time.Time, changes ...func(*history.Record)) []history.Record {
	records := make([]history.Record, n)
	for i := range records {
		records[i] = record(newest.Add(-time.Duration(i)*time.Second), changes...)
	}
	return records
}
