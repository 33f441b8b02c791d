//go:build !race

package policy

import (
	"fmt"
	"testing"
)

func drawn(t testing.TB, model string, days float64, seed uint64) []float64 {
	t.Helper()
	arrivals, err := Demand(model, days*daySeconds, seed)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
}

// cost returns the cost of a request in tokens. Each expired token costs one, and each
// miss costs max_waste.
func cost(r Result, k Params) float64 { return r.WastePerRequest + k.MaxWaste*(1-r.HitRate) }

// For a timer of any period, the policy buys the tokens in time and wastes few.
func TestTimersAreLearned(t *testing.T) {
	long(t)
	periods := []int{60, 75, 120, 150, 180, 240, 300, 400, 600}
	mean := 0.0
	for _, period := range periods {
		r := simulated(t, Simulation{Params: usual(), Arrivals: drawn(t, fmt.Sprintf("timer:%d", period), 0.5, 1)})
		j := cost(r, usual())
		t.Logf("each %3d s: hits %.2f %%, waste %.3f, cost %.3f", period, 100*r.HitRate, r.WastePerRequest, j)
		if j > 0.3 {
			t.Errorf("each %d s: cost %.3f", period, j)
		}
		mean += j / float64(len(periods))
	}
	if t.Logf("mean %.3f", mean); mean > 0.15 {
		t.Errorf("mean cost %.3f", mean)
	}
}

// For random bursts that are over before a token can land, the cost is hardly higher than if
// nothing was bought.
func TestShortBurstsAreNotPursued(t *testing.T) {
	long(t)
	for _, size := range []int{5, 10, 20, 40} {
		r := simulated(t, Simulation{Params: usual(), Arrivals: drawn(t, fmt.Sprintf("clusters:%d", size), 14, 1)})
		j := cost(r, usual())
		t.Logf("%2d at once: %d requests, %d hits, waste %.3f, cost %.3f", size, r.Requests, r.Hits, r.WastePerRequest, j)
		if j > 3.3 {
			t.Errorf("%d at once: cost %.3f", size, j)
		}
	}
}

// If slots are scarce, a target orders the tokens for a periodic job early.
func TestFewSlots(t *testing.T) {
	long(t)
	for slots, least := range map[int]float64{5: 0.7, 10: 0.93} {
		s := Simulation{Params: usual(), Solves: DefaultSolves(), Concurrency: slots, Arrivals: trace(t, "cron10")}
		r := simulated(t, s)
		s.Params = usualFixed(27)
		fixed := simulated(t, s)
		t.Logf("%2d slots: hits %.2f %%, waste %.3f; fixed %.2f %%, %.3f", slots, 100*r.HitRate, r.WastePerRequest, 100*fixed.HitRate, fixed.WastePerRequest)
		if r.HitRate < least || r.WastePerRequest > fixed.WastePerRequest {
			t.Errorf("%d slots: hits %.2f %%, waste %.3f", slots, 100*r.HitRate, r.WastePerRequest)
		}
	}
}
