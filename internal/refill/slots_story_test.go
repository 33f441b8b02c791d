package refill

import (
	"testing"
	"time"

	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// Three jobs take turns at five slots. Each learns how long an order waits for one, and
// orders one after another before its requests come.
func TestJobsShareFewSlots(t *testing.T) {
	long(t)
	play(t, 5, func(t *testing.T, w *scenario) {
		w.provider.like(policy.DefaultSolves())
		jobs := []targets.Target{learning("one", 60), learning("two", 60), learning("three", 60)}
		w.apply(jobs...)
		const period, every, lasts = 10 * time.Minute, 200 * time.Millisecond, 3 * time.Second
		const rounds, judged = 12, 4
		asked, got := 0, 0
		for round := range rounds {
			for _, job := range jobs {
				n, hits := w.demand(job, every, lasts)
				if round >= rounds-judged {
					asked, got = asked+n, got+hits
				}
				w.after(period/3 - lasts)
			}
		}
		t.Logf("%d of %d requests found a token", got, asked)
		if got < asked*60/100 {
			t.Errorf("%d of %d requests found a token", got, asked)
		}
		for _, job := range jobs {
			if gap := w.saved(job).Slot; gap < 1 || gap > 10 {
				t.Errorf("%s has an order placed each %.1f s, as it thinks", job.Name, gap)
			}
		}
	})
}
