package historytest

import (
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// The figures of a day are the sums over its records, by type and by target.
func testFiguresOfADay(t *testing.T, open Open) {
	w := opened(t, open)
	w.day(t, noon()) // the store has no record of this day
	for i := range 120 {
		w.write(t, record(noon().Add(-time.Duration(i)*time.Minute), ending(hows[i%len(hows)]), func(r *history.Record) {
			r.Type, r.Target = captcha.SolvableTypes()[i%7], []string{"/solve", "a", "b", "a.b"}[i%4]
			r.Price = int64(i) * 123_456_789_013 // the sums have more digits than a float64 formatted by default
		}))
	}
	for _, day := range []time.Time{noon(), dayOf(noon()), dayOf(noon()).Add(24*time.Hour - time.Nanosecond)} {
		w.day(t, day) // Day ignores the time of day
	}
	w.day(t, noon().Add(24*time.Hour))
	w.day(t, noon().Add(-24*time.Hour))
}

// A record counts on the UTC day on which its order ended, and not on the day on which it was placed or written.
func testADayEndsAtMidnight(t *testing.T, open Open) {
	w, midnight := opened(t, open), dayOf(noon())
	at := func(off time.Duration) history.Record {
		return record(midnight.Add(off), func(r *history.Record) { r.Target = "a" })
	}
	w.write(t, at(0), at(-time.Millisecond), at(time.Millisecond), at(-time.Second), at(24*time.Hour-time.Millisecond), at(-24*time.Hour))
	for _, off := range []time.Duration{-48, -24, -1, 0, 1, 23} {
		w.day(t, midnight.Add(off*time.Hour))
	}
	w.all(t)
}

// Each pair of a target and an owner has separate figures, even if the texts of two pairs are similar.
func testOwnersAreSeparate(t *testing.T, open Open) {
	w := opened(t, open)
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
	w.day(t, noon())
}
