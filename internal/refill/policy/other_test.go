//go:build !race

package policy

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

// NearestFixed returns the least depth with as many hits, and the result of this depth.
func TestNearestFixedIsTheLeast(t *testing.T) {
	for _, model := range []string{"poisson:0.2", "onoff:0.5", "cron:600", "timer:300"} {
		s := Simulation{Params: usual(), Solves: DefaultSolves(), Concurrency: 64, Arrivals: drawn(t, model, 0.1, 1), Seed: 1}
		r := simulated(t, s)
		depth, nearest, err := s.NearestFixed(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if nearest != simulated(t, s.Fixed(depth)) || nearest.Hits < r.Hits {
			t.Errorf("%s: depth %d has %d hits, %d are wanted", model, depth, nearest.Hits, r.Hits)
		}
		for less := range depth {
			if hits := simulated(t, s.Fixed(less)).Hits; hits >= r.Hits {
				t.Errorf("%s: depth %d has %d hits, so %d is not the least with %d", model, less, hits, depth, r.Hits)
			}
		}
	}
}

// If no depth up to the peak has as many hits, NearestFixed returns the least depth with as many hits
// as the peak.
func TestNearestFixedReachesNotAll(t *testing.T) {
	s := Simulation{Params: usual(), Solves: DefaultSolves(), Concurrency: 64, Arrivals: drawn(t, "poisson:0.2", 0.1, 1)}
	const peak = 5
	for high, want := range map[int]func(depth int) bool{
		peak: func(depth int) bool { return depth == peak },
		40:   func(depth int) bool { return depth > peak && depth < 20 },
	} {
		most := simulated(t, s.Fixed(high)).Hits
		depth, nearest, err := s.NearestFixed(t.Context(), Result{Hits: len(s.Arrivals), PeakHeld: high})
		if err != nil || !want(depth) || most == len(s.Arrivals) || nearest.Hits < most {
			t.Errorf("depth %d with %d hits, %v; depth %d has %d", depth, nearest.Hits, err, high, most)
		}
	}
	// If there was no hit, the depth is 0 and no token is bought.
	if depth, nearest, err := s.NearestFixed(t.Context(), Result{PeakHeld: peak}); err != nil || depth != 0 || nearest.Bought != 0 {
		t.Errorf("depth %d, %d bought, %v", depth, nearest.Bought, err)
	}
	s.Arrivals = drawn(t, "poisson:0.2", 0.5, 1)
	runs := 0
	ctx, cancel := context.WithCancel(t.Context())
	s.Progress = func(float64) { runs++; cancel() }
	if _, _, err := s.NearestFixed(ctx, Result{PeakHeld: peak}); !errors.Is(err, context.Canceled) || runs != 1 {
		t.Errorf("error %v after %d", err, runs)
	}
}

// The adaptive policy of a fixed target may hold as many tokens as the provider solves at the same
// time. An adaptive target keeps its limit.
func TestAdaptiveInPlace(t *testing.T) {
	s := Simulation{Params: usualFixed(7), Concurrency: 64}
	if k := s.Adaptive(10).Params; !k.Adaptive || k.Depth != 64 || k.MaxWaste != 10 {
		t.Errorf("of a fixed target: %+v", k)
	}
	if s.Params = usualFixed(100); s.Adaptive(3).Params.Depth != 100 {
		t.Errorf("of a deep fixed target: %+v", s.Adaptive(3).Params)
	}
	if s.Params, s.Params.Depth = usual(), 7; s.Adaptive(10).Params.Depth != 7 {
		t.Errorf("of an adaptive target: %+v", s.Adaptive(10).Params)
	}
	if k := s.Fixed(9).Params; k.Adaptive || k.Depth != 9 || k.Min != 0 {
		t.Errorf("fixed: %+v", k)
	}
}

// BoughtADay includes the silence: a fixed depth of one buys a token every 80 s, day and night.
func TestBoughtADay(t *testing.T) {
	s := Simulation{Params: usualFixed(1), Concurrency: 64, Arrivals: []float64{36000, 36400}, Length: daySeconds}
	s.Solves = Solves{Median: 20 * time.Second, Least: 20 * time.Second, Most: 20 * time.Second}
	r := simulated(t, s)
	perToken := func(length float64) float64 { return 80 * r.BoughtADay / length }
	if math.Abs(perToken(daySeconds)-1) > 0.01 || r.Bought > 14 {
		t.Errorf("%g a day, %d in the run", r.BoughtADay, r.Bought)
	}
	if each := r.BoughtADay / float64(r.Served); r.Served != 1 || math.Abs(r.BoughtEach-each) > 1e-9 {
		t.Errorf("%g for each of %d, want %g", r.BoughtEach, r.Served, each)
	}
	// If the silence is short, BoughtEach is about the same as in the run without the silence.
	steady := simulated(t, Simulation{Params: usual(), Arrivals: drawn(t, "poisson:0.2", 0.1, 1), Length: daySeconds / 10})
	if steady.BoughtEach != steady.BoughtPerServed {
		t.Errorf("%g each, in the run %g", steady.BoughtEach, steady.BoughtPerServed)
	}
	// If Length is 0, BoughtADay is the number of tokens from second 0 to the last arrival, scaled
	// to a day.
	s.Length = 0
	if r = simulated(t, s); math.Abs(perToken(daySeconds)-1) > 0.01 {
		t.Errorf("of a trace: %g a day", r.BoughtADay)
	}
	// Tokens that land after the time Length do not count.
	s.Arrivals = []float64{0, 590}
	if r = simulated(t, s); math.Abs(perToken(daySeconds)-1) > 0.15 || r.BoughtADay >= float64(r.Bought)*daySeconds/afterLast {
		t.Errorf("of a short trace: %g a day, %d in the run", r.BoughtADay, r.Bought)
	}
	// One arrival says little about a day, but the result is not infinite.
	s.Arrivals = []float64{0}
	if r = simulated(t, s); !(math.Abs(perToken(daySeconds)-1) <= 0.15) { // NaN is not near
		t.Errorf("of one request: %g a day", r.BoughtADay)
	}
	// With windows, the count begins at second 0.
	s.Arrivals, s.Length, s.Params.Depth = []float64{80000}, daySeconds, 0
	s.Warm = []Warm{each(24*time.Hour, time.Hour, 1, time.Hour)}
	if r = simulated(t, s); math.Abs(r.BoughtADay-45) > 2 || r.BoughtEach != 0 {
		t.Errorf("with a window: %g a day, %g each", r.BoughtADay, r.BoughtEach)
	}
}
