package worth

import (
	"math"
	"testing"
	"time"
)

// The first lead times are rarely taken for a change.
func TestFalseChangesOfTheFirstLeadTimesAreRare(t *testing.T) {
	for _, sigma := range []float64{.45, .8} {
		changes := 0
		for seed := range seeds {
			dice, l := random(seed), new(Leads)
			for range 30 {
				if l.Add(time.Duration(math.Exp(sigma*dice.NormFloat64()) * float64(20*time.Second))) {
					changes++
				}
			}
		}
		t.Logf("sigma %v: %d false changes in the first 30 solves of %d draws", sigma, changes, seeds)
		if changes*10 > seeds {
			t.Errorf("sigma %v: %d false changes in the first 30 solves of %d draws", sigma, changes, seeds)
		}
	}
}

// Old lead times lose their weight, but every quantile remains one of the lead times.
func TestQuantilesOfDecayedLeadTimes(t *testing.T) {
	dice, l := random(1), new(Leads)
	for i := range 1000 {
		l.Add(time.Duration(math.Exp(.3*dice.NormFloat64()) * float64(20*time.Second)))
		if low, high := l.Quantile(0), l.Quantile(1); low < 4*time.Second || high < low || high > 100*time.Second {
			t.Fatalf("after %d lead times, the quantiles 0 and 1 are %v and %v", i+1, low, high)
		}
	}
}
