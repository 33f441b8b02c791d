//go:build !race

package policy

import (
	"math"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// steady draws a demand with one request per 100 s on average.
func steady(t *testing.T, length time.Duration, seed uint64) []float64 {
	t.Helper()
	arrivals, err := Demand("poisson:0.01", length.Seconds(), seed)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
}

// atPrice returns a simulation of the arrivals with this price as max_waste.
func atPrice(t *testing.T, price, wanted float64, arrivals []float64) Simulation {
	t.Helper()
	k := usual()
	k.HitRate, k.MaxWaste = wanted, price
	return Simulation{Params: k, Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals, Seed: 1}
}

func needed(t *testing.T, s Simulation) *Need {
	t.Helper()
	need, err := s.Need(t.Context(), simulated(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return need
}

// The max_waste of a Need reaches the wanted hit rate, also on other days with the same demand.
func TestNeedIsEnough(t *testing.T) {
	long(t)
	const wanted = 0.99
	s := atPrice(t, 3, wanted, steady(t, day, 2))
	need := needed(t, s)
	if need == nil || need.MaxWaste == nil || need.HitRateNow < 0.75 || need.HitRateNow > 0.85 {
		t.Fatalf("%+v", need)
	}
	t.Log(need.Text)
	if r := simulated(t, atPrice(t, *need.MaxWaste, wanted, s.Arrivals)); r.HitRate < wanted || r.HitRate > wanted+0.005 {
		t.Errorf("followed, %.2f %% hits", 100*r.HitRate)
	}
	if r := simulated(t, atPrice(t, *need.MaxWaste, wanted, steady(t, 3*day, 10))); math.Abs(r.HitRate-wanted) > 0.005 {
		t.Errorf("on other days %.2f %% hits", 100*r.HitRate)
	}
}

// Need returns nil in three cases: the hit rate is reached, the depth is fixed, or there are too
// few requests. If no price reaches the rate, the Need says so.
func TestNeedOrNot(t *testing.T) {
	arrivals := steady(t, 3*time.Hour, 1)
	for text, s := range map[string]Simulation{
		"reached":      atPrice(t, 12, 0.5, arrivals),
		"fixed":        {Params: usualFixed(1), Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals},
		"few requests": atPrice(t, 3, 0.99, arrivals[:fewRequests-1]),
	} {
		if need := needed(t, s); need != nil {
			t.Errorf("%s: %+v", text, need)
		}
	}
	// The first requests of an unexpected burst miss at any price. At depth 1, one of two
	// simultaneous requests also misses at any price.
	bursts := atPrice(t, 3, 0.97, nil)
	for n := range 8 {
		for range 10 {
			bursts.Arrivals = append(bursts.Arrivals, float64(n*n)*700)
		}
	}
	shallow := atPrice(t, 3, 0.97, arrivals)
	shallow.Params.Depth = 1
	for _, s := range []Simulation{bursts, shallow, atPrice(t, 1000, 0.9999, arrivals)} {
		need := needed(t, s)
		if need == nil || need.MaxWaste != nil || !strings.Contains(need.Text, " % is not reached by any max_waste up to 1000 here (now ") {
			t.Errorf("%+v", need)
		}
	}
}
