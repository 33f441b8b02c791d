package historytest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"poold/internal/history"
)

// twin is a store and the model of it. What it writes goes to both, and what it reads from the store must be what the
// model says.
type twin struct {
	stores []history.Store
	model  model
	turn   int // grows with each call, so that all replicas have theirs
}

// opened is a store that is empty.
func opened(t testing.TB, open Open) *twin { return &twin{stores: open(t), model: model{}} }

// store is the replica whose turn it is.
func (w *twin) store() history.Store {
	w.turn++
	return w.stores[w.turn%len(w.stores)]
}

// write writes records, in batches of the size that is allowed.
func (w *twin) write(t tester, records ...history.Record) {
	t.Helper()
	for batch := range slices.Chunk(records, history.MostBatch) {
		if err := w.store().Write(t.Context(), batch); err != nil {
			t.Fatalf("writing %d records: %v", len(batch), err)
		}
		w.model.write(batch)
	}
}

// list is what is read in pages: Site or Tasks, and what the model says of it.
type list struct {
	name string
	read func(t tester, q history.Query) (history.Page, error)
	want func(q history.Query) history.Page
}

// site are the records of a sitekey.
func (w *twin) site(sitekey string) list {
	return list{
		name: "site",
		read: func(t tester, q history.Query) (history.Page, error) { return w.store().Site(t.Context(), sitekey, q) },
		want: func(q history.Query) history.Page {
			return w.model.page(func(r history.Record) bool { return r.Sitekey == sitekey }, q)
		},
	}
}

// tasks are the records of a status.
func (w *twin) tasks(status history.Status) list {
	return list{
		name: "tasks " + string(status),
		read: func(t tester, q history.Query) (history.Page, error) { return w.store().Tasks(t.Context(), status, q) },
		want: func(q history.Query) history.Page {
			return w.model.page(func(r history.Record) bool { return r.Status() == status }, q)
		},
	}
}

// page compares one page.
func (l list) page(t tester, q history.Query) history.Page {
	t.Helper()
	got, err := l.read(t, q)
	if err != nil {
		t.Fatalf("%s, %+v: %v", l.name, q, err)
	}
	want := l.want(q)
	for i := range min(len(got.Records), len(want.Records)) {
		if got.Records[i] != want.Records[i] {
			t.Fatalf("%s, %+v: record %d is\n%#v, want\n%#v", l.name, q, i, got.Records[i], want.Records[i])
		}
	}
	if len(got.Records) != len(want.Records) || got.More != want.More {
		t.Fatalf("%s, %+v: %d records, more: %v; want %d, %v", l.name, q, len(got.Records), got.More, len(want.Records), want.More)
	}
	return got
}

// pages compares one page after another to the last one.
func (l list) pages(t tester, q history.Query) (records []history.Record) {
	t.Helper()
	for {
		page := l.page(t, q)
		records = append(records, page.Records...)
		if !page.More {
			return records
		}
		q.Before = last(page)
	}
}

// last is the position of the last record of a page.
func last(page history.Page) history.Position {
	r := page.Records[len(page.Records)-1]
	return history.Position{Ended: r.Ended, ID: r.ID}
}

// day compares the figures of a day.
func (w *twin) day(t tester, day time.Time) {
	t.Helper()
	got, err := w.store().Day(t.Context(), day)
	if err != nil {
		t.Fatalf("day %v: %v", day, err)
	}
	want := w.model.day(day)
	if !maps.Equal(got.Types, want.Types) {
		t.Fatalf("day %v by type: %+v, want %+v", day, got.Types, want.Types)
	}
	if !maps.Equal(got.Targets, want.Targets) {
		t.Fatalf("day %v by target: %+v, want %+v", day, got.Targets, want.Targets)
	}
}

// solve compares one record.
func (w *twin) solve(t tester, id string) {
	t.Helper()
	got, found, err := w.store().Solve(t.Context(), id)
	want, known := w.model[id]
	if err != nil || found != known || got != want {
		t.Fatalf("solve %q:\n%#v, %v, %v; want\n%#v, %v", id, got, found, err, want, known)
	}
}

// task compares the record of a task, of which there may be several.
func (w *twin) task(t tester, task string) {
	t.Helper()
	got, found, err := w.store().Task(t.Context(), task)
	want := w.model.task(task)
	if err != nil || found != (len(want) > 0) || found && !slices.Contains(want, got) {
		t.Fatalf("task %q:\n%#v, %v, %v; want one of\n%#v", task, got, found, err, want)
	}
}

// all compares all that can be read of all that was written.
func (w *twin) all(t tester) {
	t.Helper()
	whole := history.Query{Limit: history.MostLimit}
	sitekeys, tasks, days := map[string]bool{}, map[string]bool{}, map[time.Time]bool{}
	for id, r := range w.model {
		w.solve(t, id)
		sitekeys[r.Sitekey], tasks[r.Task], days[dayOf(r.Ended)] = true, true, true
	}
	for task := range tasks {
		w.task(t, task)
	}
	for sitekey := range sitekeys {
		if sitekey != "" { // no site
			w.site(sitekey).page(t, whole)
		}
	}
	for day := range days {
		w.day(t, day)
	}
	w.tasks(history.StatusSolved).page(t, whole)
	w.tasks(history.StatusError).page(t, whole)
}

// down fails the test unless an error is history.ErrDown, or is not, as is wanted.
func down(t tester, what string, err error, want bool) {
	t.Helper()
	if err == nil || errors.Is(err, history.ErrDown) != want {
		t.Fatalf("%s: %v; history.ErrDown: want %v", what, err, want)
	}
}
