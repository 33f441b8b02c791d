package historytest

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
)

// OpenAudit opens one audit that is empty, as Open does.
type OpenAudit func(t testing.TB) []history.Audit

// AuditSuite is what an audit must pass. Each of them may run in a bubble of its own.
var AuditSuite = map[string]func(*testing.T, OpenAudit){
	"AnEntryComesBackWhole":     testAnEntryComesBackWhole,
	"TextsThatAreNone":          testTextsThatAreNone,
	"AnEntryIsKeptOnce":         testAnEntryIsKeptOnce,
	"ManyWriteTheSameEntries":   testManyWriteTheSameEntries,
	"ManyWriteEntriesAtOnce":    testManyWriteEntriesAtOnce,
	"WritingEntriesIsCutOff":    testWritingEntriesIsCutOff,
	"EntriesOfOneMillisecond":   testEntriesOfOneMillisecond,
	"KeysAreApart":              testKeysAreApart,
	"PagesOfEntries":            testPagesOfEntries,
	"EntriesOfFewTargets":       testEntriesOfFewTargets,
	"NewEntriesBetweenPages":    testNewEntriesBetweenPages,
	"ADayByKey":                 testADayByKey,
	"WhoAskedForEntriesHasGone": testWhoAskedForEntriesHasGone,
}

// TestAudit runs the suite.
func TestAudit(t *testing.T, open OpenAudit) {
	for name, test := range AuditSuite {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// actions are all that a key does.
var actions = []history.Action{history.Taken, history.Bought, history.Accepted, history.Rejected}

// entry is one of the key "key". Its ID is one that no other has unless it is changed.
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

// by gives an entry another key.
func by(key string) func(*history.Entry) { return func(e *history.Entry) { e.Key = key } }

// doing gives an entry another action, with what belongs to it.
func doing(action history.Action) func(*history.Entry) {
	return func(e *history.Entry) {
		if e.Action = action; action == history.Bought {
			e.Source, e.Image, e.Price = "solve", "sha256:9b25d5f09587e50d8e5d3b1e8c2930a4, 1234 bytes", 2_990_000
		}
	}
}

// auditModel is an audit in a few lines: the entries by their ID.
type auditModel map[string]history.Entry

func (m auditModel) write(batch []history.Entry) {
	for _, e := range batch {
		m[e.ID] = e
	}
}

// entries is what a query must find.
func (m auditModel) entries(key string, q history.Query) history.Entries {
	var found []history.Entry
	for _, e := range m {
		if e.Key == key && listed(e.At, e.ID, e.Target, q) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b history.Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	if len(found) > q.Limit {
		return history.Entries{List: found[:q.Limit], More: true}
	}
	return history.Entries{List: found}
}

// day sums the entries of a day up.
func (m auditModel) day(day time.Time) map[string]history.KeyFigures {
	keys := map[string]history.KeyFigures{}
	for _, e := range m {
		if dayOf(e.At).Equal(dayOf(day)) {
			keys[e.Key] = keys[e.Key].Plus(e.Figures())
		}
	}
	return keys
}

// auditTwin is an audit and the model of it, as twin is of a store.
type auditTwin struct {
	audits []history.Audit
	model  auditModel
	turn   int
}

func openedAudit(t testing.TB, open OpenAudit) *auditTwin {
	return &auditTwin{audits: open(t), model: auditModel{}}
}

// audit is the replica whose turn it is.
func (w *auditTwin) audit() history.Audit {
	w.turn++
	return w.audits[w.turn%len(w.audits)]
}

// write writes entries, in batches of the size that is allowed.
func (w *auditTwin) write(t tester, entries ...history.Entry) {
	t.Helper()
	for batch := range slices.Chunk(entries, history.MostBatch) {
		if err := w.audit().WriteEntries(t.Context(), batch); err != nil {
			t.Fatalf("writing %d entries: %v", len(batch), err)
		}
		w.model.write(batch)
	}
}

// together lets writers write at once, each its own entries in batches of its own size.
func (w *auditTwin) together(t *testing.T, sizes []int, entries ...[]history.Entry) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, mine := range entries {
		audit := w.audit()
		all.Go(func() {
			<-start
			for batch := range slices.Chunk(mine, sizes[i%len(sizes)]) {
				if err := audit.WriteEntries(t.Context(), batch); err != nil {
					t.Errorf("writing: %v", err)
				}
			}
		})
		w.model.write(mine)
	}
	close(start)
	all.Wait()
}

// page compares one page.
func (w *auditTwin) page(t tester, key string, q history.Query) history.Entries {
	t.Helper()
	got, err := w.audit().Entries(t.Context(), key, q)
	if err != nil {
		t.Fatalf("%.40q, %+v: %v", key, q, err)
	}
	want := w.model.entries(key, q)
	for i := range min(len(got.List), len(want.List)) {
		if got.List[i] != want.List[i] {
			t.Fatalf("%.40q, %+v: entry %d is\n%#v, want\n%#v", key, q, i, got.List[i], want.List[i])
		}
	}
	if len(got.List) != len(want.List) || got.More != want.More {
		t.Fatalf("%.40q, %+v: %d entries, more: %v; want %d, %v", key, q, len(got.List), got.More, len(want.List), want.More)
	}
	return got
}

// pages compares one page after another to the last one.
func (w *auditTwin) pages(t tester, key string, q history.Query) {
	t.Helper()
	for {
		page := w.page(t, key, q)
		if !page.More {
			return
		}
		last := page.List[len(page.List)-1]
		q.Before = history.Position{Ended: last.At, ID: last.ID}
	}
}

// day compares the figures of a day.
func (w *auditTwin) day(t tester, day time.Time) {
	t.Helper()
	got, err := w.audit().KeyDay(t.Context(), day)
	if want := w.model.day(day); err != nil || !maps.Equal(got, want) {
		t.Fatalf("day %v: %+v, %v; want %+v", day, got, err, want)
	}
}

// all compares all that can be read of all that was written.
func (w *auditTwin) all(t tester) {
	t.Helper()
	keys, days := map[string]bool{}, map[time.Time]bool{}
	for _, e := range w.model {
		keys[e.Key], days[dayOf(e.At)] = true, true
	}
	for key := range keys {
		w.pages(t, key, history.Query{Limit: history.MostLimit})
	}
	for day := range days {
		w.day(t, day)
	}
}
