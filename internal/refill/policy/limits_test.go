//go:build !race

package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A hit earns max_waste, a miss a twentieth of it; what may be held is that and what
// was handed out of late.
func TestCreditIsEarned(t *testing.T) {
	m := NewState(usual())
	if m.limits().affordable != 15 {
		t.Errorf("a new target may hold %d", m.limits().affordable)
	}
	now := time.Unix(1_700_000_000, 0)
	for range 100 {
		m.Request(now, false)
	}
	if got := m.limits().affordable; got < 29 || got > 30 {
		t.Errorf("after a hundred misses %d", got)
	}
	for range 10 {
		m.Request(now, true)
	}
	if got := m.limits().affordable; got < 69 || got > 70 { // 30 more, and the 10
		t.Errorf("after ten hits %d", got)
	}
	now = now.Add(time.Hour)
	m.Expired(now, 50)
	if got := m.limits().affordable; got < 9 || got > 10 {
		t.Errorf("after an hour and 50 deaths %d", got)
	}
	if m.Expired(now, 50); m.limits().affordable != 0 {
		t.Errorf("in debt %d", m.limits().affordable)
	}
	if m.Expired(now, 100_000); m.credit.left != -m.credit.most() {
		t.Errorf("the deepest debt is %.0f, want %.0f", m.credit.left, -m.credit.most())
	}
	for range 10_000 {
		m.Request(now, true)
	}
	if m.credit.left != m.credit.most() {
		t.Errorf("saved up %.0f, at most %.0f", m.credit.left, m.credit.most())
	}
}

// Whatever the demand, hits pay for what expires, and misses for little: a demand that
// never finds a token costs next to nothing.
func TestHitsPayForWaste(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := usual()
		k.Depth = rapid.IntRange(0, 300).Draw(t, "depth")
		k.MaxWaste = rapid.SampledFrom([]float64{0.1, 0.5, 1, 3, 10, 100}).Draw(t, "max waste")
		k.Usable = time.Duration(rapid.IntRange(5, 300).Draw(t, "life")) * time.Second
		var arrivals []float64
		at := 0.0
		gap := rapid.SampledFrom([]float64{1, 20, 90, 400}).Draw(t, "gap")
		size := rapid.IntRange(1, 40).Draw(t, "size")
		for range rapid.IntRange(1, 30).Draw(t, "bursts") {
			at += gap * rapid.SampledFrom([]float64{0.3, 0.9, 1, 1, 1.1, 2}).Draw(t, "times")
			for range rapid.IntRange(1, size).Draw(t, "burst") {
				arrivals = append(arrivals, at)
				at += 0.2
			}
		}
		median := time.Duration(rapid.IntRange(10, 60).Draw(t, "median")) * time.Second
		p := Solves{Median: median, Sigma: 0.5, Least: median / 4, Most: 5 * median, Fail: 0.07}
		r, err := Simulation{Params: k, Solves: p, Concurrency: rapid.IntRange(1, 64).Draw(t, "slots"), Arrivals: arrivals}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// As much as was handed out of late may be held besides.
		start := max(creditLeast, creditMisses*k.MaxWaste)
		bound := heldTimes * (start + (k.MaxWaste+1)*float64(r.Hits) + 0.05*k.MaxWaste*float64(r.Misses))
		if float64(r.Expired) > math.Ceil(bound) {
			t.Fatalf("%d of %d expired for %d hits and %d misses, more than %.1f", r.Expired, r.Bought, r.Hits, r.Misses, bound)
		}
	})
}
