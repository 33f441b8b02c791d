package refill

import (
	"testing"
	"time"

	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// Three jobs take turns at five slots, and each learns how long an order waits for one.
// That this makes more requests find a token is shown over many runs by the policy's
// TestFewSlots: one run says little of it.
func TestJobsShareFewSlots(t *testing.T) {
	long(t)
	play(t, 5, func(t *testing.T, w *scenario) {
		w.provider.like(policy.DefaultSolves())
		jobs := []targets.Target{learning("one", 60), learning("two", 60), learning("three", 60)}
		w.apply(jobs...)
		const period, every, lasts = 10 * time.Minute, 200 * time.Millisecond, 3 * time.Second
		for range 6 {
			for _, job := range jobs {
				w.demand(job, every, lasts)
				w.after(period/3 - lasts)
			}
		}
		for _, job := range jobs {
			if gap := w.saved(job).Slot; gap < 0.1 || gap > 10 {
				t.Errorf("%s has an order placed each %.1f s, as it thinks", job.Name, gap)
			}
		}
	})
}
