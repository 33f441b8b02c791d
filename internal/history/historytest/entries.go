package historytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"poold/internal/history"
)

// A query returns all fields of an entry unchanged.
func testEntriesComeBackWhole(t *testing.T, open OpenAudit) {
	w, at := openedAudit(t, open), noon().Add(789*time.Millisecond)
	w.compareDay(t, at) // the audit has no entry of this day
	w.key("key").comparePage(t, history.Query{Limit: 1})
	var entries []history.Entry
	for _, action := range actions {
		entries = append(entries, entry(at, withAction(action)), entry(at, withAction(action), withKey(history.Keyless)))
	}
	entries = append(entries, entry(at, func(e *history.Entry) { e.Target, e.Token, e.Source, e.Image = "", "", "", "" }),
		entry(at, withAction(history.Bought), func(e *history.Entry) { e.Price = 1_234_567_890_123_457 }), // more digits than a float64 has in the default format
		entry(at, func(e *history.Entry) { e.Target, e.Image = "/solve", strings.Repeat("ä%", 150) }))
	for _, text := range hostile {
		entries = append(entries, entry(at, withKey(text), func(e *history.Entry) { e.Target, e.Token, e.Source, e.Image = text, text, text, text }))
	}
	w.write(t, entries...)
	w.compareAll(t)
}

// normalize returns the text with a single U+FFFD for each run of bytes that a store may replace.
func normalize(text string) string {
	valid := strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	for strings.Contains(valid, "\uFFFD\uFFFD") {
		valid = strings.ReplaceAll(valid, "\uFFFD\uFFFD", "\uFFFD")
	}
	return valid
}

func mayReturn(got, text string) bool {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") && len(text) <= 500 {
		return got == text
	}
	got = normalize(got)
	return got == normalize(text) || len(text) > 500 && len(got) > 490 && strings.HasPrefix(normalize(text), got)
}

// An entry with an invalid text is written, and so are the other entries of its batch. A query for the key of an entry
// returns the entry.
func testInvalidTexts(t *testing.T, open OpenAudit) {
	w := openedAudit(t, open)
	texts := []string{
		"\x00", "a\x00b", "\x01\x1b[31m\x7f\r\n", "\xff", "\xfe", "\xc3", "ab\xff\xfe", strings.Repeat("long", 2500), strings.Repeat("é試", 2000) + "\xff",
	}
	batch := []history.Entry{entry(noon(), withKey("good"))}
	for _, text := range texts {
		batch = append(batch, entry(noon(), withKey(text), func(e *history.Entry) { e.Target, e.Token, e.Source, e.Image = text, text, text, text }))
	}
	for range 2 {
		for _, audit := range w.audits {
			if err := audit.WriteEntries(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, want := range batch {
		found, err := w.audit().Entries(t.Context(), want.Key, history.Query{Limit: 10})
		at := slices.IndexFunc(found.List, func(e history.Entry) bool { return e.ID == want.ID })
		if err != nil || at < 0 {
			t.Fatalf("entry %d: %+v, %v", i, found, err)
		}
		got := found.List[at]
		if !mayReturn(got.Target, want.Target) || !mayReturn(got.Token, want.Token) || !mayReturn(got.Source, want.Source) || !mayReturn(got.Image, want.Image) ||
			!mayReturn(got.Key, want.Key) || !got.At.Equal(want.At) || got.Action != want.Action {
			t.Errorf("entry %d: %.999q", i, fmt.Sprint(got))
		}
	}
	day, err := w.audit().KeyDay(t.Context(), noon())
	var sum history.KeyFigures
	for key, f := range day {
		if !slices.ContainsFunc(batch, func(e history.Entry) bool { return mayReturn(key, e.Key) }) {
			t.Errorf("a key %.40q", key)
		}
		sum = sum.Plus(f)
	}
	if want := (history.KeyFigures{HandedOut: int64(len(batch))}); err != nil || sum != want || day["good"].HandedOut != 1 {
		t.Errorf("the day: %+v, %v; want %+v", sum, err, want)
	}
}

// An entry counts once, even if it is written twice in one batch or in several batches.
func testRepeatedEntriesCountOnce(t *testing.T, open OpenAudit) {
	w := openedAudit(t, open)
	for _, batch := range [][]history.Entry{nil, {}} {
		if err := w.audit().WriteEntries(t.Context(), batch); err != nil {
			t.Errorf("writing nothing: %v", err)
		}
	}
	batch := entriesOfFewKeys(7)
	w.write(t, batch...)
	w.write(t, batch...)
	w.write(t, batch[2], batch[2], batch[0])
	w.write(t, append(entriesOfFewKeys(3), batch...)...)
	twice := entry(noon(), withAction(history.Bought))
	w.write(t, twice, twice)
	w.write(t, twice)
	w.compareAll(t)
}

// entriesOfFewKeys returns entries of two days and a few keys, so that all entries add to the same few
// figures.
func entriesOfFewKeys(n int) []history.Entry {
	entries := make([]history.Entry, n)
	for i := range entries {
		entries[i] = entry(noon().Add(-time.Duration(i%250)*13*time.Minute), withAction(actions[i%len(actions)]), func(e *history.Entry) {
			e.Key, e.Target = []string{"a", "b", history.Keyless}[i%3], []string{"/solve", "a"}[i%2]
		})
	}
	return entries
}

// Concurrent writers may write the same entries, in overlapping batches and in different orders. Each entry counts once.
func testManyWriteTheSameEntries(t *testing.T, open OpenAudit) {
	w, entries := openedAudit(t, open), entriesOfFewKeys(250)
	writers := [][]history.Entry{entries}
	for range 5 {
		mine := slices.Clone(entries)
		rand.Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		writers = append(writers, mine)
	}
	w.writeTogether(t, []int{history.MostBatch, 37, 5}, writers...)
	w.compareAll(t)
}

// Concurrent writers of different entries add to the same figures. Every entry is counted.
func testManyWriteEntriesAtOnce(t *testing.T, open OpenAudit) {
	w, entries := openedAudit(t, open), entriesOfFewKeys(800)
	rand.Shuffle(len(entries), func(a, b int) { entries[a], entries[b] = entries[b], entries[a] })
	w.writeTogether(t, []int{100, 50, 25}, slices.Collect(slices.Chunk(entries, 100))...)
	w.compareAll(t)
}

// A write that is interrupted and then repeated counts each entry of the batch once.
func testCutOffWritesOfEntries(t *testing.T, open OpenAudit) {
	w := openedAudit(t, open)
	for range 15 {
		batch := entriesOfFewKeys(20)
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(5*time.Millisecond))
		_ = w.audit().WriteEntries(ctx, batch) // may write all, a part or nothing of the batch
		cancel()
		w.write(t, batch...)
	}
	w.compareAll(t)
}

// A query returns all entries of the same millisecond. They are sorted by the bytes of their IDs.
func testEntriesOfOneMillisecond(t *testing.T, open OpenAudit) {
	w := openedAudit(t, open)
	for _, id := range []string{"a", "B", "aB", "Ab", "a1", "1", "10", "9", "Z", "z", "zz", "A", "zA"} {
		w.write(t, entry(noon(), func(e *history.Entry) { e.ID = id }))
	}
	for _, limit := range []int{1, 3, 12, 13, 14} {
		w.key("key").comparePages(t, history.Query{Limit: limit})
	}
	w.key("key").comparePages(t, history.Query{Limit: 2, Before: history.Position{Ended: noon(), ID: "M"}})
}

// A query for a key returns only entries with exactly this key, even if other keys are similar.
func testKeysAreSeparate(t *testing.T, open OpenAudit) {
	w := openedAudit(t, open)
	var entries []history.Entry
	for name, text := range hostile {
		for _, key := range []string{text, text + "2", "2" + text, strings.ToUpper(text) + "x", name} {
			entries = append(entries, entry(noon(), withKey(key)))
		}
	}
	w.write(t, entries...)
	w.compareAll(t)
	for _, key := range []string{"", "%", "*", "50%", "50%_off%", "KEY#x", "unknown", " ", "null2 "} {
		w.key(key).comparePage(t, history.Query{Limit: 1})
	}
}

// openWithEntries opens an audit and writes 30 entries of one key for two targets, and a few entries
// of other keys. Some entries have the same millisecond.
func openWithEntries(t *testing.T, open OpenAudit) *auditTwin {
	w := openedAudit(t, open)
	var entries []history.Entry
	for i := range 30 {
		entries = append(entries, entry(noon().Add(-time.Duration(i/3)*time.Second), func(e *history.Entry) {
			e.Target = []string{"a", "a", "a", "b"}[i%4]
		}))
	}
	w.write(t, append(entries, entry(noon(), withKey("another")), entry(noon().Add(-5*time.Second), withKey("key2")))...)
	return w
}

// A reader gets the entries of a key page by page, newest first and without gaps. Pages may have any
// length and may start at any position. A query selects entries with From <= At < To. From and To may
// contain fractions of a millisecond.
func testPagesOfEntries(t *testing.T, open OpenAudit) {
	w := openWithEntries(t, open)
	for _, limit := range []int{1, 2, 7, 29, 30, 31, history.MostLimit} {
		w.key("key").comparePages(t, history.Query{Limit: limit})
	}
	in := func(off time.Duration) time.Time {
		if off == 0 {
			return time.Time{}
		}
		return noon().Add(off)
	}
	for _, from := range []time.Duration{0, -time.Hour, -8 * time.Second, -8*time.Second + time.Microsecond, time.Microsecond} {
		for _, to := range []time.Duration{0, -4 * time.Second, -4*time.Second + time.Microsecond, time.Hour} {
			for _, before := range []time.Duration{0, -6 * time.Second, -6500 * time.Millisecond, -2 * time.Second} {
				q := history.Query{From: in(from), To: in(to), Limit: 4}
				if before != 0 {
					q.Before = history.Position{Ended: in(before), ID: "M"}
				}
				w.key("key").comparePages(t, q)
			}
		}
	}
}

// The figures of a day are the sums over the day's entries, for each key. A day ends at midnight UTC.
func testADayByKey(t *testing.T, open OpenAudit) {
	w, midnight := openedAudit(t, open), dayOf(noon())
	entries := entriesOfFewKeys(200)
	for i := range entries {
		entries[i].Price *= int64(i) * 123_456
		if entries[i].Action == history.Bought && i%3 == 0 {
			entries[i].Price = history.PriceUnknown
		}
	}
	for _, off := range []time.Duration{0, -time.Millisecond, time.Millisecond, -time.Second, 24*time.Hour - time.Millisecond, -24 * time.Hour} {
		entries = append(entries, entry(midnight.Add(off)))
	}
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		entries = append(entries, entry(noon(), withAction(history.Rejected), withKey(hostile[name])))
	}
	w.write(t, entries...)
	for _, off := range []time.Duration{-48, -24, -1, 0, 1, 23, 24} {
		w.compareDay(t, midnight.Add(off*time.Hour))
	}
}

// If the context has ended, each method returns the error of the context, and not history.ErrDown.
func testEndedContextOfEntries(t *testing.T, open OpenAudit) {
	w, e := openedAudit(t, open), entry(noon())
	w.write(t, e)
	for want, ctx := range endedContexts(t) {
		for what, call := range map[string]func(history.Audit) error{
			"writing": func(a history.Audit) error { return a.WriteEntries(ctx, []history.Entry{e}) },
			"entries": func(a history.Audit) error { _, err := a.Entries(ctx, "key", history.Query{Limit: 1}); return err },
			"day":     func(a history.Audit) error { _, err := a.KeyDay(ctx, e.At); return err },
		} {
			err := call(w.audit())
			checkDown(t, what, err, false)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
	}
	w.compareAll(t)
}
