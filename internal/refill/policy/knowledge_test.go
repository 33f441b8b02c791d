//go:build !race

package policy

import (
	"math"
	"testing"
	"time"
)

// The estimated share of failing solves rises and falls with the failures. An outage does not
// change this share.
func TestShareOfFailures(t *testing.T) {
	m := NewState(usual())
	at := 0.0
	solve := func(n, failing int) float64 { // adds n solves, of which every failing-th fails
		for i := range n {
			at++
			if failing > 0 && i%failing == 0 {
				m.Failed(after(at))
			} else {
				m.Landed(after(at), 18*time.Second)
			}
		}
		return m.learned.solves.fails
	}
	if share := solve(300, 3); math.Abs(share-1.0/3) > 0.03 {
		t.Errorf("a third fails: %.3f", share)
	}
	if share := solve(200, 0); share > 0.01 {
		t.Errorf("then none fails: %.3f", share)
	}
	if share := solve(200, 1); math.Abs(share-0.15) > 0.01 { // the share after the first eight failures
		t.Errorf("then all fail: %.3f", share)
	}
}

// An order counts in proportion to the probability that it lands.
func TestOrdersCountByTheirChance(t *testing.T) {
	m := NewState(usual())
	at := after(requests(m, 0, 2000, 1))
	plan := m.Plan(at, 0)
	for fails, counted := range map[float64]int{0: 10, 0.3: 7, 0.8: 2} {
		m.learned.solves.fails = fails
		if d := m.Decide(at, plan, &Stock{Orders: 10, NextLook: -1, NextExpiry: -1}); d.Order != plan.Want-counted {
			t.Errorf("if %g of the solves fail, %d more are ordered for a want of %d", fails, d.Order, plan.Want)
		}
	}
}

// A forecast for a horizon uses the histogram of that horizon. A forecast between two horizons
// combines both histograms in proportion. Before the first and after the last horizon, it uses the
// nearest histogram.
func TestForecastsReadTheirHorizons(t *testing.T) {
	k := newKnowledge(&Params{Adaptive: true, Usable: 80 * time.Second})
	ends := k.ends()
	if ends != [horizons]float64{20, 40, 100} {
		t.Fatalf("horizons %v", ends)
	}
	v := expectation{shape: 12, rate: 0.1, ends: ends}
	var w workspace
	v.above = &w.above
	shares := [horizons]float64{0.2, 0.4, 0.9} // share of the samples with at least 4 times the expected requests
	for h := range horizons {
		var samples histogram
		for n := range 80 {
			ratio := -3.0
			if float64(n) < shares[h]*80 {
				ratio = 3
			}
			samples.add(ratio)
		}
		v.above[h].prepare(&samples, v.ends[h]*v.rate)
	}
	for x, want := range map[float64]float64{5: 0.2, 20: 0.2, 25: 0.25, 30: 0.3, 40: 0.4, 55: 0.525, 70: 0.65, 100: 0.9, 200: 0.9} {
		var f forecast
		v.prepare(&f, x)
		n := int(math.Round(4 * v.rate * x))
		mixed := (fallbackWeight*f.poisson(n) + 80*want) / (fallbackWeight + 80)
		if got := f.ge(n); math.Abs(got-mixed) > 0.015 {
			t.Errorf("at least %d requests in %g s: %.3f, want %.3f", n, x, got, mixed)
		}
	}
}

// After a look, a tracker learns every event since the previous look. Failures count toward an
// outage; expired tokens, hits and misses change the credit.
func TestLooksCountEveryEvent(t *testing.T) {
	m := NewTracker(usual(), nil)
	if err := m.Load(epoch, nil); err != nil {
		t.Fatal(err)
	}
	start := m.Credit()
	look := func(second float64, f Figures) Decision {
		s := &Stock{Figures: f, NextLook: -1, NextExpiry: -1}
		m.Learn(after(second), s)
		return m.Decide(after(second), m.Plan(after(second)), s)
	}
	look(1, Figures{})
	f := Figures{Requests: 10, Hits: 4, Misses: 6}
	look(2, f)
	if got, want := m.Credit()-start, 3*(4+6*missEarns); math.Abs(got-want) > 1e-9 {
		t.Errorf("four hits and six misses earn %g, want %g", got, want)
	}
	before := m.Credit()
	f.Expired = 5
	look(3, f)
	if got := before - m.Credit(); got != 5 {
		t.Errorf("five expired tokens cost %g", got)
	}
	f.Failed = FailuresInARow - 1
	if d := look(4, f); d.Failing {
		t.Errorf("%d failures are an outage", f.Failed)
	}
	f.Failed++
	if d := look(5, f); !d.Failing {
		t.Errorf("%d failures do not count as an outage", f.Failed)
	}
	f.Solved++
	s := &Stock{Figures: f, NextLook: -1, NextExpiry: -1, Leads: seconds(18)}
	m.Learn(after(6), s)
	if d := m.Decide(after(6), m.Plan(after(6)), s); d.Failing {
		t.Error("a solve does not end an outage")
	}
}

// A sample is settled when its horizon has passed in scaled time. The number of requests is
// recorded relative to the expected number. The sample counts as late if a request came after the
// near horizon.
func TestSamplesAreSettledAtTheirHorizon(t *testing.T) {
	for _, scale := range []float64{1, 0.1} {
		for later, late := range map[float64]uint32{0: 0, 30: sampleUnit} {
			tab, ends := new(table), [horizons]float64{20, 40, 100}
			const shape = 12 // expects two requests within the near horizon
			tab.note(0, shape, 0, 0)
			tab.settle(19.9*scale, 2, &ends, scale)
			if tab.done[0] != 0 {
				t.Errorf("scale %g: settled before the horizon", scale)
			}
			tab.settle(20*scale, 2, &ends, scale)
			count := uint32(2)
			if later > 0 {
				count++
			}
			tab.settle(100*scale, count, &ends, scale)
			c := tab.cells[0]
			if c == nil || c.After[0].Bins[binsZero] != sampleUnit || c.Late != late {
				t.Errorf("scale %g, a request after %g s: %+v", scale, later, c)
			}
		}
	}
}

// The length of a silence is measured in scaled time.
func TestSilencesAreScaled(t *testing.T) {
	k := newKnowledge(&Params{Adaptive: true, Usable: 80 * time.Second})
	k.scale = 0.1
	for n := range 30 {
		k.asked(1000 + 3*float64(n))
	}
	w := k.table.gaps.walkFrom(k.busy, 0)
	if before, at := w.endsWithin(25), w.endsWithin(35); before != 0 || at != 1 {
		t.Errorf("a request each 30 scaled seconds comes within 25 with %g, within 35 with %g", before, at)
	}
}

// A token for the next request of a timer is wanted one lead time ahead, but not so early that the
// token would expire before the request.
func TestTimerTokensAreWantedInTime(t *testing.T) {
	m := NewState(usual())
	end := requests(m, 0, 60, 300) - 300 // time of the last request
	for _, x := range []struct {
		silence float64
		want    int
	}{{150, 0}, {205, 0}, {250, 1}, {280, 1}} {
		if w := m.Plan(after(end+x.silence), 0); w.Want != x.want {
			t.Errorf("%g s after the last request: %+v, want %d", x.silence, w, x.want)
		}
	}
}
