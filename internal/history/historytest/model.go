package historytest

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/history"
)

type model map[string]history.Record

// write adds the records whose IDs are not in the model.
func (m model) write(batch []history.Record) {
	for _, r := range batch {
		if _, known := m[r.ID]; !known {
			m[r.ID] = r
		}
	}
}

// forget drops the records that ended before the time in the argument oldest.
func (m model) forget(oldest time.Time) {
	maps.DeleteFunc(m, func(_ string, r history.Record) bool { return r.Ended.Before(oldest) })
}

func (m model) page(selects func(history.Record) bool, q history.Query) (found []history.Record, more bool) {
	for _, r := range m {
		if selects(r) && selected(r.Ended, r.ID, r.Target, q) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b history.Record) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(b.ID, a.ID)) })
	if len(found) > q.Limit {
		return found[:q.Limit], true
	}
	return found, false
}

// task returns all records with a task id, the newest first. A store may return any of them.
func (m model) task(task string) []history.Record {
	if task == "" || history.IsOrder(task) {
		return nil
	}
	found, _ := m.page(func(r history.Record) bool { return r.Task == task }, history.Query{Limit: len(m) + 1})
	return found
}

func selected(at time.Time, id, target string, q history.Query) bool {
	return (q.From.IsZero() || !at.Before(q.From)) && (q.To.IsZero() || at.Before(q.To)) &&
		(q.Before == history.Position{} || cmp.Or(at.Compare(q.Before.Ended), cmp.Compare(id, q.Before.ID)) < 0) &&
		(q.Targets == nil || slices.Contains(q.Targets, target))
}

// day returns the figures of a day.
func (m model) day(day time.Time) history.Day {
	sum := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for _, r := range m {
		if dayOf(r.Ended).Equal(dayOf(day)) {
			owned := history.Owned{Target: r.Target, Owner: r.Owner}
			sum.Types[r.Type] = sum.Types[r.Type].Plus(r.Figures())
			sum.Targets[owned] = sum.Targets[owned].Plus(r.Figures())
		}
	}
	return sum
}

// dayOf returns the beginning of the UTC day of a time.
func dayOf(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// A store returns the same results as the model for random calls in random order.
func testRandomCalls(t *testing.T, open Open) {
	base := dayOf(time.Now()).Add(-24 * time.Hour)
	// The wrapper hides the method Deadline, which rapid calls on a *testing.T. A synctest bubble
	// does not allow this method.
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		run := &run{TB: t}
		defer run.end()
		s := story{base, newTwin(run, open)}
		rt.Repeat(map[string]func(*rapid.T){
			"write": s.write, "site": s.site, "tasks": s.tasks, "day": s.day, "solve": s.solve,
		})
		s.w.compareAll(rt)
	})
}

// run is one run of a property test. Its method end calls the registered functions.
type run struct {
	testing.TB
	ends []func()
}

// Cleanup registers a function to call when the run has ended. The functions are called in reverse
// order of their registration.
func (r *run) Cleanup(f func()) { r.ends = append(r.ends, f) }

func (r *run) end() {
	for _, f := range slices.Backward(r.ends) {
		f()
	}
}

// mostRecords is the maximum number of records in a story. With so few records no store drops the
// oldest records of a list.
const mostRecords = 50

// story is a random sequence of calls with times around midnight. Each field of a record has only a
// few possible values, so many records have equal fields.
type story struct {
	base time.Time
	w    *twin
}

var (
	storySites   = []string{"site", "Site", "site2"}
	storyTargets = []string{"/solve", "a", "b"}
)

func (s story) write(rt *rapid.T) {
	// The records of a batch have different IDs.
	batch := rapid.SliceOfNDistinct(rapid.Custom(s.record), 1, 20, func(r history.Record) string { return r.ID }).Draw(rt, "batch")
	if len(s.w.model)+len(batch) > mostRecords {
		rt.Skip("enough")
	}
	s.w.write(rt, batch...)
}

// record draws a record. The ID is one of few IDs, so that some records have the same ID.
func (s story) record(rt *rapid.T) history.Record {
	return record(s.ended(rt), func(r *history.Record) {
		r.ID = rapid.SampledFrom([]string{"A", "B", "a", "aB", "a1"}).Draw(rt, "order") +
			rapid.SampledFrom([]string{"", "A", "a", "1", "11"}).Draw(rt, "order")
		r.Sitekey = rapid.SampledFrom(storySites).Draw(rt, "site")
		r.Target = rapid.SampledFrom(storyTargets).Draw(rt, "target")
		r.Owner = rapid.SampledFrom([]string{"a@example.com", "b@example.com"}).Draw(rt, "owner")
		r.Type = rapid.SampledFrom([]captcha.Type{captcha.RecaptchaV2, captcha.Turnstile}).Draw(rt, "type")
		r.How = rapid.SampledFrom(hows).Draw(rt, "how")
		r.Price = rapid.Int64Range(history.PriceUnknown, 1<<40).Draw(rt, "price")
		if rapid.Bool().Draw(rt, "never submitted") {
			r.Submitted = time.Time{}
		}
	})
}

// ended draws the time at which an order ends. There are only a few possible times.
func (s story) ended(rt *rapid.T) time.Time {
	return s.base.Add(time.Duration(rapid.IntRange(-3, 3).Draw(rt, "ms")) * time.Millisecond)
}

// query draws a query. The query may start after any record, even after a record that it does not
// select.
func (s story) query(rt *rapid.T) history.Query {
	q := history.Query{Limit: rapid.IntRange(1, 10).Draw(rt, "limit")}
	if rapid.Bool().Draw(rt, "from some time on") {
		q.From = s.ended(rt)
	}
	if rapid.Bool().Draw(rt, "to some time") {
		q.To = s.ended(rt)
	}
	if len(s.w.model) > 0 && rapid.Bool().Draw(rt, "behind one") {
		r := s.w.model[s.id(rt)]
		q.Before = history.Position{Ended: r.Ended, ID: r.ID}
	}
	if rapid.Bool().Draw(rt, "of some targets") {
		q.Targets = rapid.SliceOfNDistinct(rapid.SampledFrom(append(storyTargets, "no such")), 0, 3, rapid.ID[string]).Draw(rt, "targets")
	}
	return q
}

// id draws the ID of a written record.
func (s story) id(rt *rapid.T) string {
	ids := make([]string, 0, len(s.w.model))
	for id := range s.w.model {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(rt, "id")
}

func (s story) site(rt *rapid.T) {
	s.w.site(rapid.SampledFrom(storySites).Draw(rt, "site")).comparePages(rt, s.query(rt))
}

func (s story) tasks(rt *rapid.T) {
	s.w.tasks(rapid.SampledFrom([]history.Status{history.StatusSolved, history.StatusError}).Draw(rt, "status")).comparePages(rt, s.query(rt))
}

func (s story) day(rt *rapid.T) { s.w.compareDay(rt, s.ended(rt)) }

func (s story) solve(rt *rapid.T) {
	if len(s.w.model) == 0 || rapid.Bool().Draw(rt, "unknown") {
		s.w.compareSolve(rt, "unknown."+string(captcha.Identity{}.ID()))
		return
	}
	s.w.compareSolve(rt, s.id(rt))
}
