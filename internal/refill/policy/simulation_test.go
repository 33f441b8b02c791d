//go:build !race

package policy

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"poold/internal/testkit"
)

func usualFixed(depth int) Params {
	k := usual()
	k.Adaptive, k.Depth = false, depth
	return k
}

// A simulation without demand has no result, and one that is cancelled ends.
func TestSimulationEnds(t *testing.T) {
	if r, err := (Simulation{}).Run(t.Context()); err != nil || r != (Result{}) {
		t.Errorf("without demand: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := Simulation{Params: usual(), Solves: DefaultSolves(), Concurrency: 64, Arrivals: trace(t, "sessions")}
	s.Progress = func(float64) { cancel() }
	_, err := s.Run(ctx)
	testkit.ErrorIs(t, "a run", err, context.Canceled)
}

// The adaptive policy of a fixed target may hold as many tokens as the provider solves at the same
// time. An adaptive target keeps its limit.
func TestASettingIsComparedWithTheOtherPolicy(t *testing.T) {
	s := Simulation{Params: usualFixed(7), Concurrency: 64}
	if k := s.Adaptive(10).Params; !k.Adaptive || k.Depth != 64 || k.MissCost != 10 {
		t.Errorf("of a fixed target: %+v", k)
	}
	s.Params = usualFixed(100)
	testkit.Equal(t, "depth of a deep fixed target", s.Adaptive(3).Params.Depth, 100)
	s.Params, s.Params.Depth = usual(), 7
	testkit.Equal(t, "depth of an adaptive target", s.Adaptive(10).Params.Depth, 7)
	if k := s.Fixed(9).Params; k.Adaptive || k.Depth != 9 || k.Min != 0 {
		t.Errorf("fixed: %+v", k)
	}
}

// A run includes the silence before, between and after the requests: a fixed depth of one buys a token every 80 s.
func TestBoughtADay(t *testing.T) {
	s := Simulation{Params: usualFixed(1), Concurrency: 64, Solves: Solves{Median: 20 * time.Second}}
	for _, length := range []float64{0, daySeconds} {
		for _, arrivals := range [][]float64{{36000, 36400}, {0, 590}, {0}} {
			s.Arrivals, s.Length = arrivals, length
			r := simulated(t, s)
			tokens := max(length, arrivals[len(arrivals)-1]+AfterLast) / 80
			if math.Abs(float64(r.Bought)-tokens) > 3 || math.Abs(r.BoughtADay*80/daySeconds-1) > 0.2 {
				t.Errorf("%v, length %g: %d bought, %g a day", arrivals, length, r.Bought, r.BoughtADay)
			}
		}
	}
	s.Arrivals, s.Length, s.Params.Depth = []float64{80000}, daySeconds, 0
	s.Params.Warm = []Warm{each(24*time.Hour, time.Hour, 1, time.Hour)}
	testkit.AtMost(t, "difference from 45 a day, with a window", math.Abs(simulated(t, s).BoughtADay-45), 2)
}

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

// The times of windows are relative to second 0.
func TestWarmWindowsAtTheirTime(t *testing.T) {
	s := Simulation{Params: usualFixed(0), Solves: Solves{Median: time.Second}, Concurrency: 9}
	s.Params.Warm = []Warm{each(24*time.Hour, time.Hour, 4, time.Minute)}
	s.Arrivals = []float64{3000, 3630, 3630, 7200} // at 0:50, 1:00:30, 2:00
	if r := simulated(t, s); r.Hits != 2 || r.Bought < 4 {
		t.Errorf("%d hits, %d bought", r.Hits, r.Bought)
	}
}

// A forecast from a rate is the negative binomial distribution: its mean is shape × x / (2 × decay), and its
// variance is larger by the share of the window.
func TestForecastFromARate(t *testing.T) {
	for _, c := range [][2]float64{{0.5, 10}, {3, 40}, {50, 60}, {4000, 100}} {
		shape, x, mean, square := c[0], c[1], 0.0, 0.0
		f := fromRate(shape, x)
		for n := 1; n < len(f); n++ {
			mean += f[n]
			square += f[n] * float64(2*n-1)
		}
		ratio := x / (2 * calibrated.decay)
		testkit.AtMost(t, fmt.Sprintf("%v: error of the mean", c), math.Abs(mean/(shape*ratio)-1), 0.01)
		testkit.AtMost(t, fmt.Sprintf("%v: error of the variance", c), math.Abs((square-mean*mean)/(shape*ratio*(1+ratio))-1),
			0.05)
	}
}
