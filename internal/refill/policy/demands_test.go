//go:build !race

package policy

import (
	"fmt"
	"slices"
	"testing"
)

// drawn is a demand model of so many days.
func drawn(t testing.TB, model string, days float64, seed uint64) []float64 {
	t.Helper()
	arrivals, err := Demand(model, days*daySeconds, seed)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
}

// cost is what a request costs, in tokens: those that expired, and max_waste for
// each miss.
func cost(r Result, k Params) float64 { return r.WastePerRequest + k.MaxWaste*(1-r.HitRate) }

// A check that asks once a minute, or once in ten, finds its token, and next to none
// is bought in vain.
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

// Bursts that are over before a token could come, at no particular time, cost hardly
// more than buying nothing, which costs max_waste a request.
func TestClustersAreLetGo(t *testing.T) {
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

// With few slots a target orders a job's tokens one after another before it comes.
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

// The table in docs/refill.md, but for timers and clusters. The smooth ones cost next to
// nothing; TestTraces has a day of each kind.
var (
	smoothDemands = []string{"poisson:0.2", "diurnal:0.2", "office:0.2"}
	roughDemands  = []string{"onoff:0.5", "sessions:0.02", "flash:0.1", "cron:600", "mixed:0.1"}
)

// costOfDemands is the sum of what their requests cost, in misses.
func costOfDemands(t testing.TB, price float64, seeds uint64, models ...string) (sum float64) {
	k := usual()
	k.MaxWaste = price
	for _, model := range models {
		mean := 0.0
		for seed := range seeds {
			r := simulated(t, Simulation{Params: k, Arrivals: drawn(t, model, 1, seed+1), Seed: seed})
			mean += cost(r, k) / price / float64(seeds)
		}
		t.Logf("max_waste %g, %-13s: cost %.3f", price, model, mean)
		sum += mean
	}
	return sum
}

// What the built-in demands cost is known. BenchmarkDemands is the same of all and over
// more draws.
func TestDemandsCost(t *testing.T) {
	long(t)
	for price, most := range map[float64]float64{3: 1.57, 10: 0.9} {
		t.Run(fmt.Sprintf("max_waste %g", price), func(t *testing.T) {
			t.Parallel()
			sum := costOfDemands(t, price, 1, roughDemands...)
			if t.Logf("sum %.3f", sum); sum > most {
				t.Errorf("they cost %.3f", sum)
			}
		})
	}
}

// The whole table: go test -run none -bench Demands -benchtime 1x -v
func BenchmarkDemands(b *testing.B) {
	for _, price := range []float64{3, 10} {
		b.Run(fmt.Sprintf("max_waste=%g", price), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(costOfDemands(b, price, 4, slices.Concat(smoothDemands, roughDemands)...), "misses")
			}
		})
	}
}
