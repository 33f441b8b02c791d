//go:build !race

package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ask returns the probability that a silence ends in the next x seconds, and the
// weight of the samples.
func ask(g *gaps, busy int, silence, x float64) (p, weight float64) {
	w := g.walkFrom(busy, silence)
	return w.endsWithin(x), w.weight
}

// The gaps learn the length of a period to within a few seconds, however long the period is.
func TestGapsKnowAPeriod(t *testing.T) {
	g := new(gaps)
	for i := range 20 {
		g.add(0, 300+float64(i%8))
	}
	for _, c := range []struct{ silence, x, least, most float64 }{
		{0, 280, 0, 0},
		{0, 330, 1, 1},
		{250, 35, 0, 0},
		{250, 70, 1, 1},
		{285, 30, 1, 1},
	} {
		if p, weight := ask(g, 0, c.silence, c.x); p < c.least || p > c.most || weight != 20 {
			t.Errorf("after %g s within %g more: %.3f of %g", c.silence, c.x, p, weight)
		}
	}
	// If a tenth of the silences end early, the other silences still count.
	g.add(0, 40)
	g.add(0, 40)
	if p, weight := ask(g, 0, 0, 60); math.Abs(p-2.0/22) > 0.01 || weight != 22 {
		t.Errorf("early ones: %.3f of %g", p, weight)
	}
	if p, weight := ask(g, 0, 60, 270); p != 1 || weight != 20 {
		t.Errorf("after those: %.3f of %g", p, weight)
	}
}

// For requests that arrive at random, the length of the silence so far makes no difference.
func TestGapsWithoutMemory(t *testing.T) {
	g := new(gaps)
	random := rand.New(rand.NewPCG(1, 0))
	for range 5000 {
		g.add(0, 100*random.ExpFloat64())
	}
	want := -math.Expm1(-0.5)
	for _, silence := range []float64{0, 10, 50, 100, 150} {
		if p, _ := ask(g, 0, silence, 50); math.Abs(p-want) > 0.12 {
			t.Errorf("after %g s: %.3f, want about %.3f", silence, p, want)
		}
	}
}

// Old silences lose weight when many new silences are added.
func TestGapsFollow(t *testing.T) {
	g := new(gaps)
	for range 5000 {
		g.add(0, 60)
	}
	if p, weight := ask(g, 0, 0, 80); p != 1 || weight > halveAt/sampleUnit {
		t.Errorf("%.3f of %g", p, weight)
	}
	for range 300 {
		g.add(0, 600)
	}
	if p, _ := ask(g, 0, 0, 80); p > 0.1 {
		t.Errorf("five hours after the period changed it is still believed: %.3f", p)
	}
}

// The gaps have no estimate for a silence that is longer than all recorded silences. They also have
// none for a busyness without recorded silences.
func TestGapsUnknown(t *testing.T) {
	g := new(gaps)
	for range 50 {
		g.add(0, 60)
	}
	if p, weight := ask(g, 0, 400, 50); weight != 0 || p != 0 {
		t.Errorf("a silence too long: %.3f of %g", p, weight)
	}
	if _, weight := ask(g, busies-1, 0, 50); weight != 0 {
		t.Errorf("too busy: weight %g", weight)
	}
	v := expectation{shape: 2, gaps: g.walkFrom(0, 400)}
	var with, without forecast
	v.prepare(&with, 50)
	v.gaps = walk{}
	v.prepare(&without, 50)
	if with.ge(1) != without.ge(1) || with.ge(3) != without.ge(3) {
		t.Errorf("%.3f, without gaps %.3f", with.ge(1), without.ge(1))
	}
	g.add(0, math.MaxFloat64)
	if _, weight := ask(g, 0, 1e12, 1e12); weight != 1 {
		t.Errorf("beyond all bins: weight %g", weight)
	}
}

// The results of a walk do not depend on the order of the queries.
func TestWalkAnswersInAnyOrder(t *testing.T) {
	g := new(gaps)
	for i := range 200 {
		g.add(0, float64(20+i*i%300))
	}
	w := g.walkFrom(0, 33)
	for _, x := range []float64{80, 20, 100, 99.5, 100, 0.5, 400, 80} {
		fresh := g.walkFrom(0, 33)
		if got, want := w.endsWithin(x), fresh.endsWithin(x); got != want {
			t.Errorf("within %g s: %g, a new walk %g", x, got, want)
		}
	}
}

// A token for the next request of a timer is not ordered so early that the token expires before that
// request.
func TestEarly(t *testing.T) {
	g := new(gaps)
	for range 30 {
		g.add(0, 300)
	}
	for silence, want := range map[float64]bool{100: false, 205: true, 240: false, 280: false} {
		v := expectation{shape: fallbackPrior, life: 80, q85: 25, gaps: g.walkFrom(0, silence)}
		if got := v.isTooEarly(3); got != want {
			t.Errorf("after %g s early is %v", silence, got)
		}
	}
	if v := (expectation{shape: 2, life: 80, q85: 25}); v.isTooEarly(3) {
		t.Error("early without a request so far")
	}
}
