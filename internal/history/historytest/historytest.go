// Package historytest contains the suite that every history.Sink passes, and a Sink in memory for the tests of
// other packages. Only tests import it.
//
// A test sends the same rows to a store and to a Memory, and compares what both return. The suite stays within the
// limits of each store: its rows are of the last days, with at most 50 rows of a site key and 1,000 of a status.
package historytest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/history"
)

// Open opens an empty store, which keeps orders and hand-outs for these times, and returns some replicas over its data.
// They are closed when the test ends. The random model opens ten stores.
type Open func(t testing.TB, orders, handouts time.Duration) []history.Sink

const week = 7 * 24 * time.Hour

// Test runs the suite.
func Test(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *twin){
		"rows are whole": testWhole, "rows count once": testOnce, "pages": testPages, "ended contexts": testEndedContexts,
	} {
		t.Run(name, func(t *testing.T) { test(t, newTwin(t, open, week, week)) })
	}
	t.Run("model", func(t *testing.T) { testModel(t, open) })
	t.Run("retention", func(t *testing.T) {
		testRetention(t, newTwin(t, open, 10*time.Hour, 100*time.Hour))
		testRetention(t, newTwin(t, open, 100*time.Hour, 10*time.Hour))
	})
}

// twin is a store and its model.
type twin struct {
	replicas []history.Sink
	model    *Memory
}

func newTwin(t testing.TB, open Open, orders, handouts time.Duration) *twin {
	return &twin{open(t, orders, handouts), NewMemory(orders, handouts)}
}

// Has checks that a store has these rows, each once, and no others. All are younger than a week.
func Has(t testing.TB, store history.Sink, rows ...history.Row) {
	t.Helper()
	w := &twin{[]history.Sink{store}, NewMemory(week, week)}
	_ = w.model.Append(t.Context(), rows)
	w.compareAll(t, 25)
}

func pick[T any](from ...T) T { return from[rand.N(len(from))] }

// patiently makes a call with one of the replicas, and repeats it while the store does not respond, which may happen on
// a busy machine.
func (w *twin) patiently(t rapid.TB, call func(context.Context, history.Sink) error) {
	t.Helper()
	ctx := context.Background() // a rapid.TB has none
	end, err := time.Now().Add(time.Minute), call(ctx, pick(w.replicas...))
	for errors.Is(err, history.ErrDown) && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
		err = call(ctx, pick(w.replicas...))
	}
	if err != nil {
		t.Errorf("%v", err)
	}
}

// append appends rows to the store, in batches, and to the model.
func (w *twin) append(t rapid.TB, rows ...history.Row) {
	t.Helper()
	for batch := range slices.Chunk(rows, history.MostBatch) {
		w.patiently(t, func(ctx context.Context, s history.Sink) error { return s.Append(ctx, batch) })
	}
	_ = w.model.Append(context.Background(), rows) // it does not fail
}

// cutOff begins an Append that may store all rows, or some, or none.
func (w *twin) cutOff(rows []history.Row) {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(5*time.Millisecond))
	defer cancel()
	_ = pick(w.replicas...).Append(ctx, rows[:min(len(rows), history.MostBatch)])
}

// compare compares all pages of a query with the model. For a task it asks only for the newest order.
func (w *twin) compare(t rapid.TB, q history.Query) {
	t.Helper()
	rows := w.model.Rows(func(r *history.Row) bool { return selects(&q, r) })
	for first := true; first || len(rows) > 0; first = false {
		n := min(q.Limit, len(rows))
		want, got := history.Page{More: len(rows) > n}, history.Page{}
		for _, r := range rows[:n] {
			want.Rows = append(want.Rows, r.Text)
		}
		w.patiently(t, func(ctx context.Context, s history.Sink) (err error) { got, err = s.Find(ctx, q); return err })
		if q.By == history.ByTask {
			got.More, want.More, rows = false, false, rows[:n]
		}
		same[history.Order](t, q, got, want)
		same[history.Handout](t, q, got, want)
		if n > 0 {
			q.Before = history.Position{At: rows[n-1].At, ID: rows[n-1].ID}
		}
		rows = rows[n:]
	}
}

func same[T any](t rapid.TB, q history.Query, got, want history.Page) {
	t.Helper()
	rows, err := history.Decode[T](got)
	expected, _ := history.Decode[T](want)
	if err != nil || got.More != want.More || !reflect.DeepEqual(rows, expected) {
		t.Fatalf("%+v: %v, more: %v\ngot  %+v\nwant %+v, more: %v", q, err, got.More, rows, expected, want.More)
	}
}

// compareAll compares days and lists of the store with the model: all of them, or at most the given number for each
// field.
func (w *twin) compareAll(t rapid.TB, most int) {
	t.Helper()
	asked, lists := map[[2]string]bool{}, map[history.By]int{}
	fields := []history.By{history.BySite, history.ByStatus, history.ByTask, history.ByKey, history.ByID, "day"}
	rows := w.model.Rows(func(*history.Row) bool { return true })
	rand.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	for _, r := range rows {
		for _, by := range fields {
			key := [2]string{string(by), cmp.Or(valueOf(&r, by), r.At.UTC().Format(time.DateOnly))}
			switch {
			case asked[key], lists[by] == most:
				continue
			case by == "day":
				w.compareDay(t, r.At)
			case by == history.ByTask:
				w.compare(t, history.Query{By: by, Value: key[1], Limit: 1})
			default:
				w.compare(t, history.Query{By: by, Value: key[1], Limit: 40})
			}
			asked[key] = true
			lists[by]++
		}
	}
}

// compareDay compares the sums of a day with the model.
func (w *twin) compareDay(t rapid.TB, day time.Time) {
	t.Helper()
	var got []history.Sum
	w.patiently(t, func(ctx context.Context, s history.Sink) (err error) { got, err = s.Days(ctx, day); return err })
	want, _ := w.model.Days(context.Background(), day)
	for _, sums := range [][]history.Sum{got, want} {
		for _, s := range sums {
			maps.DeleteFunc(s.Figures, func(_ string, n int64) bool { return n == 0 })
		}
		slices.SortFunc(sums, func(a, b history.Sum) int {
			return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Owner, b.Owner))
		})
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: sums %+v\nwant %+v", day, got, want)
	}
}

// noon is a time of yesterday, so that hours around it are in the past and of the same day.
func noon() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour) }

// Filled returns a struct whose fields have values that depend on n, except structs in it, such as times.
func Filled[T any](n int) (filled T) {
	for field, value := range reflect.ValueOf(&filled).Elem().Fields() {
		switch {
		case value.Kind() == reflect.String:
			value.SetString(fmt.Sprint(field.Name, "-", n))
		case value.Kind() == reflect.Bool:
			value.SetBool(n%2 == 1)
		case value.CanInt():
			value.SetInt(int64(n))
		}
	}
	return filled
}

// NthOrder returns the row of an order that ended at the given time. Its other fields depend on n.
func NthOrder(n int, at time.Time, changes ...func(*history.Order)) history.Row {
	outcomes := []history.Outcome{history.Solved, history.Discarded, history.Failed, history.Refused, history.Lost}
	o := Filled[history.Order](n)
	o.ID, o.Target = fmt.Sprintf("%c%025d", "ZbYa"[n%4], n), []string{"/solve", "a", "b"}[n%3]
	o.Owner, o.Type, o.Sitekey = []string{"x@example.com", "y"}[n%2], captcha.Types()[n%4], "site"
	o.Provider, o.Status, o.Outcome = "captchaai", history.StatusError, outcomes[n%5]
	o.PlacedAt.Time, o.SubmittedAt.Time, o.EndedAt.Time = at.Add(-time.Minute), at.Add(-20*time.Second), at
	o.ElapsedMS, o.Price = 20_000, history.Money(n%7-1)*1_234_567
	if o.Outcome == history.Solved {
		o.Status, o.Code, o.SolvedAt = history.StatusSolved, "", history.Time{Time: at.Add(-5 * time.Second)}
	}
	for _, change := range changes {
		change(&o)
	}
	return o.Row()
}

// InFlight changes an order that has ended to one that waits for its token.
func InFlight(o *history.Order) {
	o.Status, o.Outcome, o.ElapsedMS = history.StatusPolling, "", 0
	o.SolvedAt, o.EndedAt = history.Time{}, history.Time{}
}

func atSite(sitekey string) func(*history.Order) {
	return func(o *history.Order) { o.Sitekey = sitekey }
}

// handout returns the row of hand-out n. Its fields depend on n.
func handout(n int, at time.Time, changes ...func(*history.Handout)) history.Row {
	actions := []history.Action{history.Taken, history.Bought, history.Returned, history.Missed, history.Accepted,
		history.Rejected}
	h := Filled[history.Handout](n)
	h.ID, h.At.Time, h.Key = fmt.Sprintf("17%011d-%d", n/3, n%3), at, []string{"ci", "CI", history.Keyless}[n%3]
	h.Action, h.Target = actions[n%6], []string{"/solve", "a", "b"}[n/2%3]
	h.Order, h.Price = fmt.Sprintf("ORDER%021d", n), history.Money(n%7-1)*1_234_567
	for _, change := range changes {
		change(&h)
	}
	return h.Row()
}

func ofCI(h *history.Handout) { h.Key = "ci" }

// mixed returns n orders and n hand-outs of two days, of a few types, targets and keys.
func mixed(first, n int) (rows []history.Row) {
	for i := first; i < first+n; i++ {
		at := noon().Add(-time.Duration(i%250) * 7 * time.Minute)
		rows = append(rows, NthOrder(i, at, atSite(fmt.Sprint("site", i%20))), handout(i, at))
	}
	return rows
}

// The store returns each field of a row unchanged. This holds for each outcome and action, for absent and unknown
// fields, and for any bytes. The row is in the sums of its UTC day. An order in flight is not among the rows, neither
// before nor after its end.
func testWhole(t *testing.T, w *twin) {
	at := noon().Add(789 * time.Millisecond)
	active := NthOrder(1, at, InFlight)
	w.append(t, active)
	w.compare(t, history.Query{By: history.ByID, Value: active.ID, Limit: 1})
	w.append(t, mixed(0, 30)...)
	w.append(t, active)
	midnight := noon().Add(-12 * time.Hour)
	for i, off := range []time.Duration{0, -1, 1, 24*60*60*1000 - 1, -24 * 60 * 60 * 1000} {
		w.append(t, NthOrder(50+i, midnight.Add(off*time.Millisecond)), handout(50+i, midnight.Add(off*time.Millisecond)))
	}
	w.append(t, NthOrder(100, at, func(o *history.Order) {
		*o = history.Order{ID: o.ID, Target: o.Target, Type: o.Type, Status: o.Status, Outcome: o.Outcome, EndedAt: o.EndedAt,
			Price: history.MoneyUnknown}
	}), NthOrder(101, at, func(o *history.Order) {
		o.Polls, o.ElapsedMS, o.Price, o.SolvedAt = 1<<31-1, 1<<40, 123_456_789_123, history.Time{}
	}), handout(100, at, func(h *history.Handout) {
		*h = history.Handout{ID: h.ID, At: h.At, Key: h.Key, Action: history.Missed}
	}), handout(101, at, func(h *history.Handout) { h.Price = history.MoneyUnknown }))
	for i, text := range []string{
		"50%_off%2F%00", "/../a?b=c&d#e", "SITE#x#SOLVE#y:{z}*[a-z]?|", `'"` + "`" + `\'; drop table x; --\n`,
		`{"$ne":null}[1,2]<>&`, "=1+1,\"a\";\tb\r\n", " a  b ", "Prüfung-試験-🧪-\u200dé", "e\u0301",
		"\u2028\u2029\u0085", "0010e5", "null", "\x00", "a\x00b\x01\x1b[31m\x7f", "\xff\xfe", "ab\xc3",
		strings.Repeat("7aB-", 64), strings.Repeat("é試", 2000) + "\xff",
	} {
		w.append(t, NthOrder(200+i, at, func(o *history.Order) {
			o.Sitekey, o.Pageurl, o.Owner, o.Provider, o.Task, o.Code, o.Choice = text, text, text, text, text, text, text
		}), handout(200+i, at, func(h *history.Handout) { h.Image = text }))
		w.compare(t, history.Query{By: history.BySite, Value: history.Clean(text), Owner: history.Clean(text), Limit: 2})
	}
	w.compareAll(t, 25)
}

// A row counts once, however often it is sent: twice in a batch, by replicas at the same time, in another order, and
// after a call that was cut off.
func testOnce(t *testing.T, w *twin) {
	var all sync.WaitGroup
	for i, size := range []int{history.MostBatch, 37, 5, history.MostBatch, 23} {
		mine := slices.Concat(mixed(0, 40), mixed(0, 40), mixed(1000*(i+1), 30))
		_ = w.model.Append(t.Context(), mine)
		rand.Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		all.Go(func() {
			for batch := range slices.Chunk(mine, size) {
				w.cutOff(batch)
				w.append(t, batch...)
			}
		})
	}
	all.Wait()
	w.append(t)
	w.compareAll(t, 25)
}

// Pages follow each other without gaps, whatever their length, the position at which they start and the filters.
// Rows of the same millisecond are in the order of the bytes of their IDs.
func testPages(t *testing.T, w *twin) {
	for i := range 48 {
		at := noon().Add(-time.Duration(i/4) * time.Second)
		w.append(t, NthOrder(i, at), handout(i, at, ofCI))
	}
	w.append(t, NthOrder(50, noon(), atSite("SITE")), NthOrder(51, noon(), atSite("site2")))
	w.append(t, handout(51, noon()), handout(52, noon()))
	second := func(n time.Duration) time.Time { return noon().Add(-n * time.Second) }
	times := []time.Time{{}, {}, second(8), second(8).Add(time.Microsecond), second(4), second(0)}
	for range 100 {
		q := pick(history.Query{By: history.BySite, Value: "site"}, history.Query{By: history.ByStatus, Value: "solved"},
			history.Query{By: history.ByStatus, Value: "error"}, history.Query{By: history.ByKey, Value: "ci"})
		q.Limit = pick(1, 3, 7, 47, 48, 49, history.MostLimit)
		q.Targets = pick(nil, nil, []string{}, []string{"b"}, []string{"a", "/solve", "unknown"})
		q.Owner = pick("", "", "y", "unknown")
		q.From, q.To = pick(times...), pick(times...)
		q.Before = pick(history.Position{}, history.Position{}, history.Position{At: second(6), ID: "a"})
		w.compare(t, q)
	}
	for _, of := range [][]string{{NthOrder(1, noon()).Target}, {"unknown"}, {}} {
		w.compare(t, history.Query{By: history.ByID, Value: NthOrder(1, noon()).ID, Targets: of, Limit: 1})
		w.compare(t, history.Query{By: history.ByTask, Value: NthOrder(1, noon()).Task, Targets: of, Limit: 1})
	}
	// Services may use the same id for two tasks; a query finds the newest order.
	for i, age := range []time.Duration{1, 0, 60} {
		w.append(t, NthOrder(60+i, second(age), atSite("site3"), func(o *history.Order) { o.Task = "one" }))
	}
	w.compare(t, history.Query{By: history.ByTask, Value: "one", Limit: 1})
}

// Orders and hand-outs are each kept for the time that is set for this kind of row. Older rows are neither written nor
// found nor counted.
func testRetention(t *testing.T, w *twin) {
	for n, age := range []time.Duration{time.Minute, 9 * time.Hour, 50 * time.Hour, 99 * time.Hour, 200 * time.Hour} {
		at := time.Now().UTC().Truncate(time.Millisecond).Add(-age)
		for range 2 {
			w.append(t, NthOrder(n, at), handout(n, at, ofCI))
		}
		w.compare(t, history.Query{By: history.ByID, Value: NthOrder(n, at).ID, Limit: 1})
		w.compare(t, history.Query{By: history.ByTask, Value: NthOrder(n, at).Task, Limit: 1})
		w.compareDay(t, at)
	}
	w.compareAll(t, 25)
}

// A call whose context has ended returns the error of the context.
func testEndedContexts(t *testing.T, w *twin) {
	for want, limit := range map[error]time.Duration{context.Canceled: time.Hour, context.DeadlineExceeded: -time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		cancel()
		s := pick(w.replicas...)
		_, find := s.Find(ctx, history.Query{By: history.ByID, Value: "x", Limit: 1})
		_, days := s.Days(ctx, noon())
		for call, err := range map[string]error{"Append": s.Append(ctx, mixed(0, 1)), "Find": find, "Days": days} {
			if !errors.Is(err, want) || errors.Is(err, history.ErrDown) {
				t.Errorf("%s: %v, want %v", call, err, want)
			}
		}
	}
}

// Senders append batches, are killed, and repeat batches that may have arrived, in any order. After each row was sent
// at least once, the store equals the model.
func testModel(t *testing.T, open Open) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("10") // each check opens a store
		t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
	}
	// rapid asks a *testing.T for its deadline, which a synctest bubble does not allow.
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		w, sent, small := newTwin(t, open, week, week), 0, rapid.IntRange(0, 5)
		var pending, done [][]history.Row
		batch := func(rt *rapid.T) (rows []history.Row) {
			if old := slices.Concat(pending, done); len(old) > 0 && rapid.Bool().Draw(rt, "again") {
				rows = slices.Clone(rapid.SampledFrom(old).Draw(rt, "batch"))
			}
			for n := small.Draw(rt, "rows"); n > 0 && len(rows) < history.MostBatch-1; n-- {
				sent++
				at := noon().Add(-time.Duration(small.Draw(rt, "age")) * 9 * time.Hour)
				rows = append(rows, NthOrder(sent, at, atSite(fmt.Sprint("site", sent%10))), handout(sent, at))
			}
			return rapid.Permutation(rows).Draw(rt, "order")
		}
		compare := func(rt *rapid.T) {
			for _, rows := range pending {
				w.append(rt, rows...)
			}
			pending, done = nil, append(done, pending...)
			w.compareAll(rt, 4)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				rows := batch(rt)
				w.append(rt, rows...)
				done = append(done, rows)
			},
			"kill": func(rt *rapid.T) {
				rows := batch(rt)
				w.cutOff(rows)
				pending = append(pending, rows)
			},
			"compare": compare,
		})
		compare(rt)
	})
}
