//go:build !race

package policy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/refill/policy"
)

// If the context of a run ends during any of its parts or steps, the result is the context's error.
func TestSimulationsEndWithTheirContext(t *testing.T) {
	s := policy.Simulation{ // tokens are replaced every few seconds, even without requests
		Params: policy.Params{Depth: 8, Usable: 5 * time.Second, FirstPoll: time.Second},
		Solves: policy.Solves{Median: time.Second, Least: time.Second, Most: time.Second}, Concurrency: 8,
		Length: 1500,
	}
	for i := range 300 {
		s.Arrivals = append(s.Arrivals, float64(i))
	}
	canceledAt := func(tick int) (ticks int, empty bool, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.Progress = func(float64) {
			if ticks++; ticks == tick {
				cancel()
			}
		}
		r, err := s.Run(ctx)
		return ticks, r == policy.Result{}, err
	}
	all, empty, err := canceledAt(0)
	if err != nil || empty || all < 4 {
		t.Fatalf("%d ticks: %v, without a result: %v", all, err, empty)
	}
	for tick := 1; tick < all; tick += max(1, all/3) {
		if ticks, empty, err := canceledAt(tick); !errors.Is(err, context.Canceled) || !empty || ticks != tick {
			t.Errorf("canceled at %d of %d ticks: went on to %d, %v, without a result: %v", tick, all, ticks, err, empty)
		}
	}
}
