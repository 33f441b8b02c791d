//go:build !race

package policy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/refill/policy"
)

// An end of the context ends each search and each part of a run with the context's error and without a
// result: before the last request, after it, and during the silence at the end.
func TestSimulationsEndWithTheirContext(t *testing.T) {
	brief := policy.Simulation{ // its tokens are replaced every few seconds, also in the silence
		Params: policy.Params{Depth: 8, Usable: 5 * time.Second, FirstPoll: time.Second},
		Solves: policy.Solves{Median: time.Second, Least: time.Second, Most: time.Second}, Concurrency: 8,
		Length: 1500,
	}
	adaptive := policy.Simulation{
		Params: policy.Params{
			Adaptive: true, Depth: 20, HitRate: 0.95, MaxWaste: 0.1, Usable: 80 * time.Second, FirstPoll: 10 * time.Second, PollInterval: 5 * time.Second,
		},
		Solves: policy.DefaultSolves(), Concurrency: 20, Length: 1,
	}
	for i := range 300 {
		brief.Arrivals = append(brief.Arrivals, float64(i))
		adaptive.Arrivals = append(adaptive.Arrivals, 40*float64(i))
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
		for ticks, more := 0, true; more; ticks++ {
			ctx, cancel := context.WithCancel(t.Context())
			seen := 0
			s := c.simulation
			s.Progress = func(float64) {
				if seen++; seen > ticks {
					cancel()
				}
			}
			empty, err := c.run(ctx, s)
			more = err != nil
			cancel()
			if more && (!errors.Is(err, context.Canceled) || !empty) || !more && (err != nil || empty) {
				t.Errorf("%s, after %d ticks: %v, without a result: %v", name, ticks, err, empty)
			}
		}
	}
}
