package historytest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
)

// twin consists of a store and its model. A twin writes to both, and compares each result of the
// store with the model.
type twin struct {
	stores []history.Store
	model  model
	turn   int // number of calls of the method store
}

func newTwin(t testing.TB, open Open) *twin { return &twin{stores: open(t), model: model{}} }

// store returns another replica at each call, in turn.
func (w *twin) store() history.Store {
	w.turn++
	return w.stores[w.turn%len(w.stores)]
}

// write writes records to the store, in batches of history.MostBatch, and to the model.
func (w *twin) write(t testing.TB, records ...history.Record) {
	t.Helper()
	for batch := range slices.Chunk(records, history.MostBatch) {
		if err := w.store().Write(t.Context(), batch); err != nil {
			t.Fatalf("writing %d records: %v", len(batch), err)
		}
		w.model.write(batch)
	}
}

// list reads a list from the store in pages, and the same list from the model.
type list[T comparable] struct {
	name     string
	read     func(t testing.TB, q history.Query) (found []T, more bool, err error)
	want     func(q history.Query) (found []T, more bool)
	position func(T) history.Position
}

func position(r history.Record) history.Position { return history.Position{Ended: r.Ended, ID: r.ID} }

func (w *twin) site(sitekey string) list[history.Record] {
	return list[history.Record]{
		name: "site",
		read: func(t testing.TB, q history.Query) ([]history.Record, bool, error) {
			page, err := w.store().Site(t.Context(), sitekey, q)
			return page.Records, page.More, err
		},
		want: func(q history.Query) ([]history.Record, bool) {
			return w.model.page(func(r history.Record) bool { return r.Sitekey == sitekey }, q)
		},
		position: position,
	}
}

func (w *twin) tasks(status history.Status) list[history.Record] {
	return list[history.Record]{
		name: "tasks " + string(status),
		read: func(t testing.TB, q history.Query) ([]history.Record, bool, error) {
			page, err := w.store().Tasks(t.Context(), status, q)
			return page.Records, page.More, err
		},
		want: func(q history.Query) ([]history.Record, bool) {
			return w.model.page(func(r history.Record) bool { return r.Status() == status }, q)
		},
		position: position,
	}
}

// comparePage compares one page with the model. It returns the page and the position of the last item
// on the page. For an empty page, the position is zero.
func (l list[T]) comparePage(t testing.TB, q history.Query) (got []T, last history.Position, more bool) {
	t.Helper()
	got, more, err := l.read(t, q)
	if err != nil {
		t.Fatalf("%s, %+v: %v", l.name, q, err)
	}
	want, wantMore := l.want(q)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s, %+v: the item %d is\n%#v, want\n%#v", l.name, q, i, got[i], want[i])
		}
	}
	if len(got) != len(want) || more != wantMore {
		t.Fatalf("%s, %+v: %d items, more: %v; want %d, %v", l.name, q, len(got), more, len(want), wantMore)
	}
	if len(got) > 0 {
		last = l.position(got[len(got)-1])
	}
	return got, last, more
}

// comparePages compares all pages with the model and returns the number of items on them.
func (l list[T]) comparePages(t testing.TB, q history.Query) (n int) {
	t.Helper()
	for {
		page, last, more := l.comparePage(t, q)
		n += len(page)
		if !more {
			return n
		}
		q.Before = last
	}
}

// writeAtOnce writes the parts concurrently. Each part is written by a different replica, in
// batches of the same size. The argument sizes contains the batch sizes, which the parts use in
// turn.
func writeAtOnce[T any](t *testing.T, sizes []int, parts [][]T, writer func() func(context.Context, []T) error) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, part := range parts {
		write := writer()
		all.Go(func() {
			<-start
			for batch := range slices.Chunk(part, sizes[i%len(sizes)]) {
				if err := write(t.Context(), batch); err != nil {
					t.Errorf("writing: %v", err)
				}
			}
		})
	}
	close(start)
	all.Wait()
}

func (w *twin) compareDay(t testing.TB, day time.Time) {
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

// compareSolve compares the record with the given ID in the store with the model.
func (w *twin) compareSolve(t testing.TB, id string) {
	t.Helper()
	got, found, err := w.store().Solve(t.Context(), id)
	want, known := w.model[id]
	if err != nil || found != known || got != want {
		t.Fatalf("solve %q:\n%#v, %v, %v; want\n%#v, %v", id, got, found, err, want, known)
	}
}

// compareTask compares the record of a task with the model. If several records have the same task,
// the store may return any of these records.
func (w *twin) compareTask(t testing.TB, task string) {
	t.Helper()
	got, found, err := w.store().Task(t.Context(), task)
	want := w.model.task(task)
	if err != nil || found != (len(want) > 0) || found && !slices.Contains(want, got) {
		t.Fatalf("task %q:\n%#v, %v, %v; want one of\n%#v", task, got, found, err, want)
	}
}

// compareAll compares the store with the model, for all results that the store can return.
func (w *twin) compareAll(t testing.TB) {
	t.Helper()
	whole := history.Query{Limit: history.MostLimit}
	sitekeys, tasks, days := map[string]bool{}, map[string]bool{}, map[time.Time]bool{}
	for id, r := range w.model {
		w.compareSolve(t, id)
		sitekeys[r.Sitekey], tasks[r.Task], days[dayOf(r.Ended)] = true, true, true
	}
	for task := range tasks {
		w.compareTask(t, task)
	}
	for sitekey := range sitekeys {
		if sitekey != "" { // records without a sitekey are in no list
			w.site(sitekey).comparePage(t, whole)
		}
	}
	for day := range days {
		w.compareDay(t, day)
	}
	w.tasks(history.StatusSolved).comparePage(t, whole)
	w.tasks(history.StatusError).comparePage(t, whole)
}

// checkDown fails the test if err is nil. It also fails the test if want is true and err is no
// history.ErrDown, or if want is false and err is a history.ErrDown.
func checkDown(t testing.TB, what string, err error, want bool) {
	t.Helper()
	if err == nil || errors.Is(err, history.ErrDown) != want {
		t.Fatalf("%s: %v; history.ErrDown: want %v", what, err, want)
	}
}

// endedContexts returns a cancelled context and a context whose deadline has passed. The keys are the
// errors of the contexts.
func endedContexts(t testing.TB) map[error]context.Context {
	t.Helper()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	t.Cleanup(cancel)
	return map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: late}
}
