//go:build !race

package policy

import (
	"testing"
	"time"
)

// each returns a window that recurs once per period. The argument from is the offset
// of the window in its period.
func each(period, from time.Duration, tokens int, lasts time.Duration) Warm {
	return Warm{Tokens: tokens, Next: func(at time.Time) (time.Time, time.Time) {
		begins := at.Add(-lasts).Truncate(period).Add(from)
		for !begins.Add(lasts).After(at) {
			begins = begins.Add(period)
		}
		return begins, begins.Add(lasts)
	}}
}

// A calendar returns the tokens of windows that run or begin within the lead time, and how long this
// number is valid.
func TestCalendar(t *testing.T) {
	day := time.Date(2026, time.November, 23, 0, 0, 0, 0, time.UTC) // a Monday
	c := &calendar{
		windows: []Warm{each(24*time.Hour, 8*time.Hour+55*time.Minute, 10, 30*time.Minute), each(24*time.Hour, 9*time.Hour, 4, time.Hour), each(24*time.Hour, 12*time.Hour, 7, time.Hour)},
	}
	const lead = 20 * time.Second
	cases := []struct {
		at     time.Duration // since midnight
		tokens int
		change time.Duration
	}{
		{8 * time.Hour, 0, 55*time.Minute - lead},
		{8*time.Hour + 54*time.Minute + 40*time.Second, 10, 5 * time.Minute}, // one lead time before each window
		{9 * time.Hour, 10, 25 * time.Minute},                                // both windows run
		{9*time.Hour + 25*time.Minute, 4, 35 * time.Minute},
		{10 * time.Hour, 0, 2*time.Hour - lead},
		{12*time.Hour - lead, 7, time.Hour + lead},
		{12*time.Hour + 59*time.Minute, 7, time.Minute},
		{13 * time.Hour, 0, 19*time.Hour + 55*time.Minute - lead},
		{8 * time.Hour, 0, 55*time.Minute - lead}, // the clock was set back
	}
	for _, x := range cases {
		if tokens, change := c.tokensAt(day.Add(x.at), lead); tokens != x.tokens || change != x.change {
			t.Errorf("at %v: %d tokens for %v, want %d for %v", x.at, tokens, change, x.tokens, x.change)
		}
	}
	// Once orders for a window have begun, they continue even if the lead time becomes shorter.
	began := day.Add(32 * time.Hour)
	if tokens, _ := c.tokensAt(began, time.Hour); tokens != 10 {
		t.Errorf("an hour before: %d tokens", tokens)
	}
	if tokens, _ := c.tokensAt(began.Add(time.Second), lead); tokens != 10 {
		t.Errorf("then: %d tokens", tokens)
	}
	var none *calendar
	if tokens, change := none.tokensAt(day, lead); tokens != 0 || change != Never {
		t.Errorf("without windows: %d for %v", tokens, change)
	}
}

// For a job that runs every ten minutes, a warm window serves nearly all requests.
func TestWarmHelpsAJob(t *testing.T) {
	s := Simulation{Params: usual(), Arrivals: trace(t, "cron10")}
	without := simulated(t, s)
	s.Warm = []Warm{each(10*time.Minute, 0, 30, time.Second)}
	first := s.Arrivals[0]
	for i := range s.Arrivals { // the trace begins at a multiple of ten minutes
		s.Arrivals[i] += 600 - first + 3
	}
	with := simulated(t, s)
	t.Logf("with %.4f hits, %.3f waste; without %.4f, %.3f", with.HitRate, with.WastePerRequest, without.HitRate, without.WastePerRequest)
	if with.HitRate < 0.99 {
		t.Error("too few hits")
	}
}

// The times of windows are relative to second 0.
func TestWarmWindowsAtTheirTime(t *testing.T) {
	s := Simulation{Params: usual(), Solves: Solves{Median: time.Second, Least: time.Second, Most: time.Second}, Concurrency: 9}
	s.Params.Adaptive, s.Params.Depth = false, 0
	s.Warm = []Warm{each(24*time.Hour, time.Hour, 4, time.Minute)}
	s.Arrivals = []float64{3000, 3630, 3630, 7200} // at 0:50, 1:00:30, 2:00
	if r := simulated(t, s); r.Hits != 2 || r.Bought < 4 {
		t.Errorf("%d hits, %d bought", r.Hits, r.Bought)
	}
}
