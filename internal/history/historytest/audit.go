package historytest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"poold/internal/history"
)

// OpenAudit opens an empty audit and returns one or more replicas over the same data. The replicas are
// closed when the test ends.
type OpenAudit func(t testing.TB) []history.Audit

// AuditSuite is the suite for a history.Audit. Each test may run in a separate synctest bubble.
var AuditSuite = map[string]func(*testing.T, OpenAudit){
	"EntriesComeBackWhole":     testEntriesComeBackWhole,
	"InvalidTexts":             testInvalidTexts,
	"RepeatedEntriesCountOnce": testRepeatedEntriesCountOnce,
	"ManyWriteTheSameEntries":  testManyWriteTheSameEntries,
	"ManyWriteEntriesAtOnce":   testManyWriteEntriesAtOnce,
	"CutOffWritesOfEntries":    testCutOffWritesOfEntries,
	"EntriesOfOneMillisecond":  testEntriesOfOneMillisecond,
	"KeysAreSeparate":          testKeysAreSeparate,
	"PagesOfEntries":           testPagesOfEntries,
	"ADayByKey":                testADayByKey,
	"EndedContextOfEntries":    testEndedContextOfEntries,
}

// TestAudit runs the suite.
func TestAudit(t *testing.T, open OpenAudit) {
	for name, test := range AuditSuite {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

var actions = []history.Action{history.Taken, history.Bought, history.Accepted, history.Rejected}

// entry returns an entry with the key "key" and a unique ID.
func entry(at time.Time, changes ...func(*history.Entry)) history.Entry {
	e := history.Entry{
		ID: rand.Text(), At: at, Key: "key", Action: history.Taken, Target: "target",
		Token: "UFGXB6QT55R3WGBDXVIZYH7XMR.f3a1", Source: "pool",
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func withKey(key string) func(*history.Entry) { return func(e *history.Entry) { e.Key = key } }

// withAction returns a function that sets the action of an entry, and the fields that depend on the
// action.
func withAction(action history.Action) func(*history.Entry) {
	return func(e *history.Entry) {
		if e.Action = action; action == history.Bought {
			e.Source, e.Image, e.Price = "solve", "sha256:9b25d5f09587e50d8e5d3b1e8c2930a4, 1234 bytes", 2_990_000
		}
	}
}

type auditModel map[string]history.Entry

func (m auditModel) write(batch []history.Entry) {
	for _, e := range batch {
		m[e.ID] = e
	}
}

// forget drops the entries whose time is before the argument oldest.
func (m auditModel) forget(oldest time.Time) {
	maps.DeleteFunc(m, func(_ string, e history.Entry) bool { return e.At.Before(oldest) })
}

func (m auditModel) entries(key string, q history.Query) (found []history.Entry, more bool) {
	for _, e := range m {
		if e.Key == key && selected(e.At, e.ID, e.Target, q) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b history.Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	if len(found) > q.Limit {
		return found[:q.Limit], true
	}
	return found, false
}

func (m auditModel) day(day time.Time) map[string]history.KeyFigures {
	keys := map[string]history.KeyFigures{}
	for _, e := range m {
		if dayOf(e.At).Equal(dayOf(day)) {
			keys[e.Key] = keys[e.Key].Plus(e.Figures())
		}
	}
	return keys
}

// auditTwin consists of an audit and its model.
type auditTwin struct {
	audits []history.Audit
	model  auditModel
	turn   int
}

func openedAudit(t testing.TB, open OpenAudit) *auditTwin {
	return &auditTwin{audits: open(t), model: auditModel{}}
}

// audit returns another replica at each call, in turn.
func (w *auditTwin) audit() history.Audit {
	w.turn++
	return w.audits[w.turn%len(w.audits)]
}

// write writes entries to the audit, in batches of history.MostBatch, and to the model.
func (w *auditTwin) write(t testing.TB, entries ...history.Entry) {
	t.Helper()
	for batch := range slices.Chunk(entries, history.MostBatch) {
		if err := w.audit().WriteEntries(t.Context(), batch); err != nil {
			t.Fatalf("writing %d entries: %v", len(batch), err)
		}
		w.model.write(batch)
	}
}

// writeTogether writes several lists of entries concurrently.
func (w *auditTwin) writeTogether(t *testing.T, sizes []int, parts ...[]history.Entry) {
	writeAtOnce(t, sizes, parts, func() func(context.Context, []history.Entry) error { return w.audit().WriteEntries })
	for _, part := range parts {
		w.model.write(part)
	}
}

func (w *auditTwin) key(key string) list[history.Entry] {
	return list[history.Entry]{
		name: fmt.Sprintf("key %.40q", key),
		read: func(t testing.TB, q history.Query) ([]history.Entry, bool, error) {
			page, err := w.audit().Entries(t.Context(), key, q)
			return page.List, page.More, err
		},
		want:     func(q history.Query) ([]history.Entry, bool) { return w.model.entries(key, q) },
		position: func(e history.Entry) history.Position { return history.Position{Ended: e.At, ID: e.ID} },
	}
}

func (w *auditTwin) compareDay(t testing.TB, day time.Time) {
	t.Helper()
	got, err := w.audit().KeyDay(t.Context(), day)
	if want := w.model.day(day); err != nil || !maps.Equal(got, want) {
		t.Fatalf("day %v: %+v, %v; want %+v", day, got, err, want)
	}
}

// compareAll compares the audit with the model, for all results that the audit can return.
func (w *auditTwin) compareAll(t testing.TB) {
	t.Helper()
	keys, days := map[string]bool{}, map[time.Time]bool{}
	for _, e := range w.model {
		keys[e.Key], days[dayOf(e.At)] = true, true
	}
	for key := range keys {
		w.key(key).comparePages(t, history.Query{Limit: history.MostLimit})
	}
	for day := range days {
		w.compareDay(t, day)
	}
}
