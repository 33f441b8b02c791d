package historytest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// hostile contains texts that a faulty store could alter.
var hostile = map[string]string{
	"percent":    "50%_off%2F%00",
	"paths":      "/../a?b=c&d#e",
	"keys":       "SITE#x#SOLVE#y:{z}*[a-z]?",
	"quotes":     `'"` + "`" + `\'; drop table solves; --\\n`,
	"json":       `{"$ne":null}[1,2]<>&`,
	"csv":        "=1+1,\"a\";\tb",
	"spaces":     " a  b ",
	"unicode":    "Prüfung-試験-🧪-\u200dé",
	"combined":   "e\u0301",
	"composed":   "é",
	"separators": "\u2028\u2029\u0085",
	"a number":   "0010e5",
	"null":       "null",
	"long":       strings.Repeat("7aB-", 64),
}

// Every query returns all fields of a record unchanged.
func testRecordsComeBackWhole(t *testing.T, open Open) {
	w, at := newTwin(t, open), noon().Add(789*time.Millisecond)
	for _, how := range hows {
		w.write(t, record(at, withEnd(how)))
	}
	w.write(t, record(at, func(r *history.Record) {
		r.Type, r.Sitekey, r.Pageurl, r.Task, r.Code, r.Provider, r.Owner, r.Choice = captcha.Image, "", "", "", "", "", "", ""
		r.Submitted, r.Solved, r.Polls, r.Price = time.Time{}, time.Time{}, 0, 0
	}))
	w.write(t, record(at, func(r *history.Record) {
		r.Pageurl, r.Code, r.Choice = "https://example.com/"+strings.Repeat("ä%2F?&", 600), strings.Repeat("ERROR_", 600), strings.Repeat("choice ", 600)
		r.Polls, r.Callback, r.Price = 1<<31-1, true, 1_234_567_890_123_457 // more digits than a float64 has in the default format
		r.Placed, r.Submitted, r.Solved = at.Add(-24*time.Hour), at.Add(-time.Hour), at.Add(-time.Millisecond)
	}))
	for _, text := range hostile {
		w.write(t, record(at, func(r *history.Record) {
			r.Sitekey, r.Pageurl, r.Owner, r.Task, r.Code, r.Provider, r.Choice = text, text, text, text, text, text, text
		}))
	}
	w.compareAll(t)
}

// A second write of the same record neither changes the record nor counts it again.
func testRepeatedRecordsCountOnce(t *testing.T, open Open) {
	w, at := newTwin(t, open), noon()
	first := several(3, at, withSitekey("site"))
	w.write(t, first...)
	w.write(t, first...)
	w.compareAll(t)
	w.write(t, first[2], first[2], first[0]) // this batch contains a record twice
	w.write(t, append(several(3, at.Add(time.Hour), withSitekey("site")), first...)...)
	twice := record(at.Add(2*time.Hour), withSitekey("site"))
	w.write(t, twice, twice)
	w.compareAll(t)
	// The ID alone identifies a record.
	other := record(at.Add(-25*time.Hour), withEnd(history.Lost), withSitekey("another"))
	other.ID, other.Identity = first[0].ID, first[0].Identity
	w.write(t, other)
	w.compareAll(t)
	w.site("another").comparePage(t, history.Query{Limit: 1})
	w.compareDay(t, other.Ended)
}

// recordsOfFewTargets returns records of two days, a few targets and a few types, so that all records
// add to the same few figures.
func recordsOfFewTargets(n int) []history.Record {
	records := make([]history.Record, n)
	for i := range records {
		records[i] = record(noon().Add(-time.Duration(i%250)*13*time.Minute), withEnd(hows[i%len(hows)]), func(r *history.Record) {
			r.Target, r.Type, r.Owner = []string{"/solve", "a", "b"}[i%3], captcha.Types()[i%4], []string{"x", "y"}[i%2]
		})
	}
	return records
}

// writeTogether writes several lists of records concurrently.
func (w *twin) writeTogether(t *testing.T, sizes []int, parts ...[]history.Record) {
	writeAtOnce(t, sizes, parts, func() func(context.Context, []history.Record) error { return w.store().Write })
	for _, part := range parts {
		w.model.write(part)
	}
}

// Concurrent writers may write the same records, in overlapping batches and in different orders. No
// write fails, and each record counts once.
func testManyWriteTheSame(t *testing.T, open Open) {
	w, records := newTwin(t, open), recordsOfFewTargets(150)
	writers := [][]history.Record{records}
	for range 7 {
		mine := slices.Clone(records)
		rand.Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		writers = append(writers, mine)
	}
	w.writeTogether(t, []int{history.MostBatch, 37, 1}, writers...)
	w.compareAll(t)
}

// Concurrent writers of different records add to the same figures. Every record is counted.
func testManyWriteAtOnce(t *testing.T, open Open) {
	w, records := newTwin(t, open), recordsOfFewTargets(500)
	rand.Shuffle(len(records), func(a, b int) { records[a], records[b] = records[b], records[a] })
	w.writeTogether(t, []int{25, 5}, slices.Collect(slices.Chunk(records, 63))...)
	w.compareAll(t)
}

// A write that is interrupted and then repeated counts each record of the batch once.
func testCutOffWrites(t *testing.T, open Open) {
	w := newTwin(t, open)
	for i := range 25 {
		batch := several(20, noon().Add(-time.Duration(i)*time.Minute), withSitekey("site"+string(rune('a'+i))))
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(5*time.Millisecond))
		_ = w.store().Write(ctx, batch) // may write all, a part or nothing of the batch
		cancel()
		w.write(t, batch...)
	}
	w.compareAll(t)
}

// The store keeps all records that ended in the same millisecond, even if two services use the same task IDs.
func testOneMillisecond(t *testing.T, open Open) {
	w := newTwin(t, open)
	for _, provider := range []string{"one", "two"} {
		for _, task := range []string{"1", "2"} {
			for range 5 {
				w.write(t, record(noon(), withSitekey("site"), func(r *history.Record) { r.Provider, r.Task = provider, task }))
			}
		}
	}
	// IDs are sorted by their bytes, so that "A" is before "a".
	for _, order := range []string{"a", "B", "aB", "Ab", "a1", "1", "10", "9", "Z", "z", "zz", "A"} {
		w.write(t, record(noon(), withSitekey("site"), withID(order)))
	}
	w.compareAll(t)
	w.site("site").comparePages(t, history.Query{Limit: 3})
	w.tasks(history.StatusSolved).comparePages(t, history.Query{Limit: 5})
}
