//go:build !race

package policy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/refill/policy"
)

// If the context of a run or a search ends during any of its parts or steps, the result is the
// context's error.
func TestSimulationsEndWithTheirContext(t *testing.T) {
	brief := policy.Simulation{ // tokens are replaced every few seconds, even without requests
		Params: policy.Params{Depth: 8, Usable: 5 * time.Second, FirstPoll: time.Second},
		Solves: policy.Solves{Median: time.Second, Least: time.Second, Most: time.Second}, Concurrency: 8,
		Length: 1500,
	}
	for i := range 300 {
		brief.Arrivals = append(brief.Arrivals, float64(i))
	}
	arrivals, err := policy.Demand("poisson:0.02", 21600, 2)
	if err != nil {
		t.Fatal(err)
	}
	adaptive := policy.Simulation{
		Params: policy.Params{
			Adaptive: true, Depth: 30, HitRate: 0.95, MaxWaste: 3, Usable: 80 * time.Second, FirstPoll: 10 * time.Second, PollInterval: 5 * time.Second,
		},
		Solves: policy.DefaultSolves(), Concurrency: 30, Arrivals: arrivals, Seed: 1,
	}
	result, err := adaptive.Run(t.Context())
	if err != nil || result.HitRate >= adaptive.Params.HitRate {
		t.Fatalf("%+v, %v", result, err)
	}
	for name, c := range map[string]struct {
		simulation policy.Simulation
		run        func(ctx context.Context, s policy.Simulation) (empty bool, err error)
	}{
		"Run": {brief, func(ctx context.Context, s policy.Simulation) (bool, error) {
			r, err := s.Run(ctx)
			return r == policy.Result{}, err
		}},
		"Need": {adaptive, func(ctx context.Context, s policy.Simulation) (bool, error) {
			need, err := s.Need(ctx, result)
			return need == nil, err
		}},
		"NearestFixed": {adaptive, func(ctx context.Context, s policy.Simulation) (bool, error) {
			depth, r, err := s.NearestFixed(ctx, result)
			return depth == 0 && r == policy.Result{}, err
		}},
	} {
		canceledAt := func(tick int) (ticks int, empty bool, err error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := c.simulation
			s.Progress = func(float64) {
				if ticks++; ticks == tick {
					cancel()
				}
			}
			empty, err = c.run(ctx, s)
			return ticks, empty, err
		}
		all, empty, err := canceledAt(0)
		if err != nil || empty || all < 4 {
			t.Fatalf("%s, %d ticks: %v, without a result: %v", name, all, err, empty)
		}
		for tick := 1; tick < all; tick += max(1, all/3) {
			if ticks, empty, err := canceledAt(tick); !errors.Is(err, context.Canceled) || !empty || ticks != tick {
				t.Errorf("%s, canceled at %d of %d ticks: went on to %d, %v, without a result: %v", name, tick, all, ticks, err, empty)
			}
		}
	}
}
