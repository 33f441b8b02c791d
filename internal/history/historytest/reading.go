package historytest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
)

// lists returns two lists with the same 20 records: the records of a site, and the solved records. Some of the records
// ended in the same millisecond.
func lists(t *testing.T, open Open) (*twin, []list[history.Record]) {
	w := newTwin(t, open)
	w.write(t, several(16, noon(), withSitekey("site"))...)
	for range 4 {
		w.write(t, record(noon().Add(-7*time.Second), withSitekey("site")))
	}
	// The following records are in neither list.
	w.write(t, several(5, noon(), withSitekey("another"), withEnd(history.Failed))...)
	return w, []list[history.Record]{w.site("site"), w.tasks(history.StatusSolved)}
}

// A query for a status that no record can have returns an error that is not a history.ErrDown.
func testUnknownStatus(t *testing.T, open Open) {
	w := newTwin(t, open)
	w.write(t, record(noon()))
	for _, status := range []history.Status{history.StatusPolling, "", "SOLVED", "failed", "solved "} {
		_, err := w.store().Tasks(t.Context(), status, history.Query{Limit: 1})
		checkDown(t, "status "+string(status), err, false)
	}
}

// A reader gets the records page by page, newest first and without gaps. Pages may have any length.
// Only the last page reports that no more records follow.
func testPagesFollowEachOther(t *testing.T, open Open) {
	_, lists := lists(t, open)
	for _, l := range lists {
		for _, limit := range []int{1, 2, 7, 10, 19, 20, 21, history.MostLimit} {
			if n := l.comparePages(t, history.Query{Limit: limit}); n != 20 {
				t.Errorf("%s in pages of %d: %d records, want 20", l.name, limit, n)
			}
		}
		// This is the position of a record that does not exist.
		l.comparePages(t, history.Query{Limit: 3, Before: history.Position{Ended: noon().Add(-7 * time.Second), ID: "M"}})
		l.comparePages(t, history.Query{Limit: 3, Before: history.Position{Ended: noon().Add(-6500 * time.Millisecond), ID: "M"}})
		l.comparePage(t, history.Query{Limit: 3, Before: history.Position{Ended: noon().Add(-time.Hour), ID: "M"}})
	}
}

// A page of the maximum length is complete, even if the records are long.
func testTheLongestPage(t *testing.T, open Open) {
	w := newTwin(t, open)
	w.write(t, several(history.MostLimit, noon(), func(r *history.Record) { r.Pageurl += strings.Repeat("/path", 400) })...)
	solved := w.tasks(history.StatusSolved)
	solved.comparePage(t, history.Query{Limit: history.MostLimit})
	solved.comparePages(t, history.Query{Limit: history.MostLimit - 1})
}

// A query with targets returns only the records of these targets. Records of other targets do not make a page shorter.
func testAllowedTargets(t *testing.T, open Open) {
	w := newTwin(t, open)
	target := func(name string) func(*history.Record) {
		return func(r *history.Record) { r.Target = name }
	}
	w.write(t, several(46, noon(), withSitekey("site"), target("a"))...)
	w.write(t, several(300, noon().Add(-30*time.Second), target("a"))...) // each record has another site
	w.write(t, several(2, noon().Add(-time.Hour), withSitekey("site"), target("b"))...)
	w.write(t, record(noon().Add(-2*time.Hour), withSitekey("site"), target("/solve")), record(noon().Add(time.Hour), withSitekey("site"), target("c")))
	for _, l := range []list[history.Record]{w.site("site"), w.tasks(history.StatusSolved)} {
		for _, few := range [][]string{{}, {"b"}, {"b", "b"}, {"b", "/solve"}, {"c", "/solve"}, {"unknown"}, {"B"}, {""}} {
			for _, limit := range []int{1, 2, 3, history.MostLimit} {
				l.comparePages(t, history.Query{Limit: limit, Targets: few})
			}
		}
		for _, many := range [][]string{nil, {"a"}, {"a", "b"}, {"a", "unknown"}} {
			l.comparePage(t, history.Query{Limit: 1, Targets: many})
			l.comparePages(t, history.Query{Limit: 49, Targets: many})
			l.comparePages(t, history.Query{Limit: history.MostLimit, Targets: many})
		}
		l.comparePages(t, history.Query{Limit: 1, Targets: []string{"b", "/solve"}, To: noon().Add(-time.Hour)})
	}
}

func testUnknownSolve(t *testing.T, open Open) {
	w, r := newTwin(t, open), record(noon(), withID("abc"))
	w.write(t, r)
	w.compareSolve(t, r.ID)
	for _, id := range []string{"", "abc", "ABC" + r.ID[3:], r.ID[:len(r.ID)-1], r.ID + "0", "%", r.Task, record(noon()).ID} {
		w.compareSolve(t, id)
	}
}

// Task finds a record by its provider's task ID, which may be any text. If two services use the same
// ID, Task returns the record that both ended last and was written last. A task ID in the form of an
// order's ID does not replace that order's record.
func testLookupByTask(t *testing.T, open Open) {
	w := newTwin(t, open)
	withTask := func(task string) func(*history.Record) {
		return func(r *history.Record) { r.Task = task }
	}
	tasks := []string{"73105422", "73105423", "8e4b9c1e-1f0b-4a3e-9a53-6d1d4d1c0a11", "UPPER", "upper", strings.Repeat("1", 4000), strings.Repeat("1", 4000) + "2"}
	for _, text := range hostile {
		tasks = append(tasks, text)
	}
	for i, task := range tasks {
		w.write(t, record(noon().Add(time.Duration(i)*time.Second), withTask(task), withEnd(hows[i%3])))
	}
	for _, task := range tasks {
		w.compareTask(t, task)
	}
	order := record(noon())
	w.write(t, order, record(noon(), withTask(order.ID)), record(noon(), withTask(""), withEnd(history.Refused)))
	for _, task := range []string{"", "7310542", "731054222", "%", "Upper", order.ID, order.ID[:len(order.ID)-1]} {
		w.compareTask(t, task)
	}
	w.compareSolve(t, order.ID)

	one := record(noon(), withTask("42"), func(r *history.Record) { r.Provider = "one" })
	two := record(noon().Add(time.Minute), withTask("42"), func(r *history.Record) { r.Provider = "two" })
	w.write(t, one, two)
	late := record(noon().Add(time.Hour), withTask("42"), func(r *history.Record) { r.Provider = "one" })
	for _, want := range []history.Record{two, late} {
		if got, found, err := w.store().Task(t.Context(), "42"); err != nil || !found || got != want {
			t.Errorf("task 42: %#v, %v, %v; want %#v", got, found, err, want)
		}
		w.write(t, late)
	}
	w.compareAll(t)
}

// If the context has ended, each method returns the error of the context, and not history.ErrDown.
func testEndedContext(t *testing.T, open Open) {
	w, r := newTwin(t, open), record(noon())
	w.write(t, r)
	q := history.Query{Limit: 1}
	for want, ctx := range endedContexts(t) {
		for what, call := range map[string]func(history.Store) error{
			"writing": func(s history.Store) error { return s.Write(ctx, []history.Record{r}) },
			"site":    func(s history.Store) error { _, err := s.Site(ctx, r.Sitekey, q); return err },
			"tasks":   func(s history.Store) error { _, err := s.Tasks(ctx, history.StatusSolved, q); return err },
			"day":     func(s history.Store) error { _, err := s.Day(ctx, r.Ended); return err },
			"solve":   func(s history.Store) error { _, _, err := s.Solve(ctx, r.ID); return err },
			"task":    func(s history.Store) error { _, _, err := s.Task(ctx, r.Task); return err },
		} {
			err := call(w.store())
			checkDown(t, what, err, false)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
	}
	w.compareAll(t)
}
