package policy

import "math"

const (
	// latePrior is how many samples chance weighs as much as, where the question is
	// whether anybody comes late enough to find a token that is ordered now.
	latePrior = 0.5
	// A request that is followed by another one soon less than half as often as
	// chance has it is alone, in proportion.
	aloneBelow = 0.5
	// earlyStep is the part of a life by which an order is put off at a time.
	earlyStep = 0.25
	// Where slots are few, a life is looked ahead in slotSteps steps; a slot that
	// comes free within manySlots of a lead time is no bottleneck.
	slotSteps = 8
	manySlots = 1.0 / 64
)

// expectation is what is expected of the demand at one moment. Times are in scaled seconds.
type expectation struct {
	shape, rate    float64
	life, q50, q85 float64
	soon           [3]forecast // until a later order arrives: quantiles 20, 50 and 85 % of the lead time
	later          forecast    // or, if longer, until one arrives that is ordered so much later
	longer         float64
	use            forecast // until a token that is ordered now expires
	whole          forecast // a usable life
	late           float64  // how likely a request comes within a life, but not within a lead time
	company        float64  // how likely a request is followed by another one soon, in relation to chance; at most 1
	ends           [horizons]float64
	above          *[horizons]exceedance // nil where the table knows nothing of the situation
	gaps           walk                  // of no weight where nothing is known
}

// foresee prepares the forecasts of this moment. They point into w.
func (k *knowledge) foresee(v *expectation, now float64, w *workspace) {
	v.shape = 2*k.countAt(now) + fallbackPrior
	v.rate = v.shape / fallbackWindow
	v.life = k.life / k.scale
	v.q50, v.q85 = k.solves.quantile(0.5)/k.scale, k.solves.quantile(0.85)/k.scale
	v.ends = k.ends()
	v.late, v.company = 1, 1
	if k.last > 0 && k.table != nil {
		k.remember(v, now, w)
	}
	v.prepare(&v.soon[0], k.solves.quantile(0.2)/k.scale)
	v.prepare(&v.soon[1], v.q50)
	v.prepare(&v.soon[2], v.q85)
	v.prepare(&v.whole, v.life)
	v.prepare(&v.use, v.q50+v.life)
}

// remember takes what table and gaps know of the situation.
func (k *knowledge) remember(v *expectation, now float64, w *workspace) {
	silence, lead := (now-k.last)/k.scale, max(v.q50, leastForecast)
	if next := k.table.gaps.after(k.busy, 0); next.weight > 0 {
		chance := chanceOf(2*k.count+fallbackPrior, lead)
		v.company = min(1, next.mix(chance, lead)/chance/aloneBelow)
	}
	v.gaps = k.table.gaps.after(k.busy, silence)
	c := k.table.cells[situation(silence, k.busy)]
	if c == nil {
		return
	}
	v.above = &w.above
	for h := range c.After {
		v.above[h].prepare(&c.After[h], v.ends[h]*v.rate)
	}
	if silence < silenceEdges[busySilences-1] { // after that the gaps know better
		chance := chanceOf(v.shape, v.ends[horizons-1]-v.ends[0])
		samples := float64(c.After[horizons-1].weight) / sampleUnit
		v.late = (latePrior*chance + float64(c.Late)/sampleUnit) / (latePrior + samples)
	}
}

// chanceOf is how likely the fallback has a request within x.
func chanceOf(shape, x float64) float64 { return -math.Expm1(-shape * math.Log1p(x/fallbackWindow)) }

// prepare makes the forecast for the next x.
func (v *expectation) prepare(a *forecast, x float64) {
	x = max(x, leastForecast)
	a.fallback(x, v.shape)
	if v.above != nil {
		v.between(a, x)
	}
	if v.gaps.weight > 0 {
		some := a.many(1)
		a.first = v.gaps.mix(some, x) / some
	}
}

// between takes the histograms of the horizons around x.
func (v *expectation) between(a *forecast, x float64) {
	h := 0
	for h < horizons && v.ends[h] <= x {
		h++
	}
	switch h {
	case 0:
		a.near, a.nearShift = &v.above[0], math.Log(v.ends[0]/x)
	case horizons:
		a.near, a.nearShift = &v.above[horizons-1], math.Log(v.ends[horizons-1]/x)
	default:
		a.near, a.far = &v.above[h-1], &v.above[h]
		a.part = (x - v.ends[h-1]) / (v.ends[h] - v.ends[h-1])
	}
}

// risk is how likely a request finds nothing before a later order arrives, with n
// tokens ahead of it.
func (v *expectation) risk(n int) float64 {
	if v.longer > 0 {
		return v.company * v.later.ge(n)
	}
	return v.company * (0.3*v.soon[0].ge(n) + 0.4*v.soon[1].ge(n) + 0.3*v.soon[2].ge(n))
}

// pays is the rule: is one more token worth its price with n ahead? It holds up
// to some n and for no greater one.
func (v *expectation) pays(n int, k *Params) bool {
	if n == 0 {
		if v.longer > 0 {
			return worthOne(k.MaxWaste, v.use.ge(1))
		}
		return worthOne(k.MaxWaste, min(v.whole.ge(1), v.late)) && !v.early(k.MaxWaste)
	}
	risk, used := v.risk(n), v.use.ge(n+1)
	if v.longer == 0 {
		used = min(used, v.late)
	}
	return risk > 1-k.HitRate && cheaper*k.MaxWaste*risk*used >= 1-used
}

func worthOne(price, used float64) bool { return price*used >= 1-used }

// early reports whether an order that is put off serves more: requests that it
// would then be alive for are likelier, by its price, than those it would come too
// late for.
func (v *expectation) early(price float64) bool {
	if v.gaps.weight <= 0 {
		return false
	}
	step := earlyStep * v.life
	return v.gaps.within(v.life+step)-v.gaps.within(v.life) > (1+price)*v.gaps.within(v.q85+step)
}

// enough is the smallest n at which one more does not pay, at most most.
func (v *expectation) enough(k *Params, most int) int {
	if most <= 0 || !v.pays(0, k) {
		return 0
	}
	pays, not := 0, most
	for step := 1; pays+step < most; step *= 2 {
		if !v.pays(pays+step, k) {
			not = pays + step
			break
		}
		pays += step
	}
	for not-pays > 1 {
		if middle := (pays + not) / 2; v.pays(middle, k) {
			pays = middle
		} else {
			not = middle
		}
	}
	return not
}

// enoughInTime is enough where one token can be ordered per gap: what is needed
// later than a lead time from now, and cannot all be ordered until then, is wanted
// now.
func (v *expectation) enoughInTime(k *Params, most int, gap float64) int {
	want := v.enough(k, most)
	if gap < manySlots*v.q50 {
		return want
	}
	for step := 1; step <= slotSteps; step++ {
		v.longer = v.life * float64(step) / slotSteps
		v.prepare(&v.later, v.q50+v.longer)
		want = max(want, v.enough(k, most)-int(v.longer/gap))
	}
	v.longer = 0
	return want
}

// expected is how many requests come within a lead time, on average; of so many
// that the table knows little more of them than the rate does, as the rate has it.
func (v *expectation) expected() float64 {
	if mean := v.rate * v.q50; mean > exactUpTo/2 {
		return mean
	}
	return v.soon[1].served(exactUpTo)
}

// served is how many of n tokens are asked for in that time, on average.
func (a *forecast) served(n int) float64 {
	sum, last := 0.0, 1.0
	// One by one while that is cheap, then in steps that grow with n.
	for k := 1; k <= n && last > negligible; {
		step := min(max(1, k/exactUpTo*servedStep), n-k+1)
		p := a.ge(k + step - 1)
		sum += (last + p) / 2 * float64(step-1)
		sum += p
		last = p
		k += step
	}
	return sum
}
