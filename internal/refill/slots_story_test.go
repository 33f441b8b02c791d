package refill

import (
	"runtime"
	"testing"
	"time"

	"poold/internal/purchase"
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

// Targets that wait for a slot cost no goroutine each, and get their tokens as soon as
// slots are there.
func TestWaitingForASlotTakesNoGoroutine(t *testing.T) {
	play(t, 4, func(t *testing.T, w *scenario) {
		const many = 300
		w.provider.lead = func() time.Duration { return 10 * time.Second }
		before := runtime.NumGoroutine()
		list := lasting(many, 1, 20*time.Hour)
		w.apply(list...)
		w.after(5 * time.Second)
		if n := runtime.NumGoroutine() - before; n > many/4 {
			t.Errorf("%d goroutines for %d targets that wait", n, many)
		}
		if s := w.status("t299"); s.State != Starved {
			t.Errorf("the state of a target that waits for a slot is %+v", s)
		}
		w.buyer.SetProviders([]purchase.Entry{{Provider: w.provider, Concurrency: many}})
		w.after(time.Minute)
		for _, x := range list {
			if w.held(x) != 1 {
				t.Errorf("%s has %d tokens", x.Name, w.held(x))
			}
		}
	})
}
