package historytest

import (
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// The figures of a day are the sums over the day's records, by type and by target.
func testFiguresOfADay(t *testing.T, open Open) {
	w := newTwin(t, open)
	w.compareDay(t, noon()) // the store has no record of this day
	for i := range 120 {
		w.write(t, record(noon().Add(-time.Duration(i)*time.Minute), withEnd(hows[i%len(hows)]), func(r *history.Record) {
			r.Type, r.Target = captcha.SolvableTypes()[i%7], []string{"/solve", "a", "b", "a.b"}[i%4]
			r.Price = int64(i) * 123_456_789_013 // the sums have more digits than a float64 has in the default format
		}))
	}
	for _, day := range []time.Time{noon(), dayOf(noon()), dayOf(noon()).Add(24*time.Hour - time.Nanosecond)} {
		w.compareDay(t, day) // Day ignores the time of day
	}
	w.compareDay(t, noon().Add(24*time.Hour))
	w.compareDay(t, noon().Add(-24*time.Hour))
}

// A record counts on the UTC day on which its order ended, even if the order was placed or written on
// another day.
func testADayEndsAtMidnight(t *testing.T, open Open) {
	w, midnight := newTwin(t, open), dayOf(noon())
	at := func(off time.Duration) history.Record {
		return record(midnight.Add(off), func(r *history.Record) { r.Target = "a" })
	}
	w.write(t, at(0), at(-time.Millisecond), at(time.Millisecond), at(-time.Second), at(24*time.Hour-time.Millisecond), at(-24*time.Hour))
	for _, off := range []time.Duration{-48, -24, -1, 0, 1, 23} {
		w.compareDay(t, midnight.Add(off*time.Hour))
	}
	w.compareAll(t)
}

// Each pair of a target and an owner has separate figures, even if the texts of two pairs are similar.
func testOwnersAreSeparate(t *testing.T, open Open) {
	w := newTwin(t, open)
	for _, owned := range []history.Owned{
		{Target: "a", Owner: "x"}, {Target: "a", Owner: "y"}, {Target: "b", Owner: "x"}, {Target: "a", Owner: ""},
		{Target: "a", Owner: "b:c"}, {Target: "a:b", Owner: "c"}, {Target: "a", Owner: "b c"}, {Target: "a b", Owner: "c"},
		{Target: "a", Owner: "b|c"}, {Target: "a|b", Owner: "c"}, {Target: "a", Owner: "b#c"}, {Target: "a#b", Owner: "c"},
		{Target: "a", Owner: "X"}, {Target: "a", Owner: "é"}, {Target: "a", Owner: "e\u0301"}, {Target: "/solve", Owner: "Ünï 試験 <x@example.com>"},
	} {
		for range 2 {
			w.write(t, record(noon(), func(r *history.Record) { r.Target, r.Owner = owned.Target, owned.Owner }))
		}
	}
	w.compareDay(t, noon())
}
