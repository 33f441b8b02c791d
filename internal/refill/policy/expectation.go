package policy

import (
	"math"
	"sort"
)

const (
	// latePrior is the weight of the fallback, in samples, in the estimate of expectation.late.
	latePrior = 0.5
	// Even if requests come at random, one request sometimes follows another soon. If this happens
	// less often than aloneBelow times the random frequency, the risk is reduced in proportion.
	aloneBelow = 0.5
	// isTooEarly compares an order now with an order that is delayed by this share of the usable
	// life.
	earlyStep = 0.25
	// If slots are scarce, the plan covers one usable life ahead in slotSteps steps. Slots are not
	// scarce if the next slot becomes free within manySlots times the lead time.
	slotSteps = 8
	manySlots = 1.0 / 64
)

// expectation contains the forecasts made at one time. Times are in scaled seconds.
type expectation struct {
	shape, rate    float64
	life, q50, q85 float64     // usable life; the 50 and 85 % quantiles of the lead time
	soon           [3]forecast // requests until a later order lands, by the 20, 50 and 85 % quantiles of the lead time
	later          forecast    // like soon[1], for a delayed order
	longer         float64     // delay of the order of the field later; 0 = no delay
	use            forecast    // requests until a token that is ordered now expires
	whole          forecast    // requests within a usable life
	late           float64     // P(a request within the usable life, but no request within a lead time)
	company        float64     // P(another request soon after a request), relative to chance; at most 1
	ends           [horizons]float64
	above          *[horizons]exceedance // nil = the table has no cell for the situation
	gaps           walk                  // weight 0 = no samples
}

// foresee fills v with the forecasts at the time now. The forecasts are stored in the workspace w.
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

// remember adds to v the samples of the table and of the gaps for the current situation.
func (k *knowledge) remember(v *expectation, now float64, w *workspace) {
	silence, lead := (now-k.last)/k.scale, max(v.q50, leastForecast)
	if next := k.table.gaps.walkFrom(k.busy, 0); next.weight > 0 {
		chance := chanceOf(2*k.count+fallbackPrior, lead)
		v.company = min(1, next.mix(chance, lead)/chance/aloneBelow)
	}
	v.gaps = k.table.gaps.walkFrom(k.busy, silence)
	c := k.table.cells[situationOf(silence, k.busy)]
	if c == nil {
		return
	}
	v.above = &w.above
	for h := range c.After {
		v.above[h].prepare(&c.After[h], v.ends[h]*v.rate)
	}
	if silence < silenceEdges[busySilences-1] { // in longer silences the gaps are more exact
		chance := chanceOf(v.shape, v.ends[horizons-1]-v.ends[0])
		samples := float64(c.After[horizons-1].weight) / sampleUnit
		v.late = (latePrior*chance + float64(c.Late)/sampleUnit) / (latePrior + samples)
	}
}

func chanceOf(shape, x float64) float64 { return -math.Expm1(-shape * math.Log1p(x/fallbackWindow)) }

func (v *expectation) prepare(a *forecast, x float64) {
	x = max(x, leastForecast)
	a.fallback(x, v.shape)
	if v.above != nil {
		v.selectHistograms(a, x)
	}
	if v.gaps.weight > 0 {
		some := a.withoutGaps(1)
		a.first = v.gaps.mix(some, x) / some
	}
}

// selectHistograms selects the histograms of the two horizons around the time x.
func (v *expectation) selectHistograms(a *forecast, x float64) {
	h := 0
	for h < horizons && v.ends[h] <= x {
		h++
	}
	if nearest := min(max(h, 1), horizons) - 1; h == 0 || h == horizons {
		a.near, a.nearShift = &v.above[nearest], math.Log(v.ends[nearest]/x)
		return
	}
	a.near, a.far = &v.above[h-1], &v.above[h]
	a.part = (x - v.ends[h-1]) / (v.ends[h] - v.ends[h-1])
}

// risk returns the probability that a request finds no token before a later order lands,
// if n tokens are ready or ordered.
func (v *expectation) risk(n int) float64 {
	if v.longer > 0 {
		return v.company * v.later.ge(n)
	}
	return v.company * (0.3*v.soon[0].ge(n) + 0.4*v.soon[1].ge(n) + 0.3*v.soon[2].ge(n))
}

// pays reports whether one more token is worth its price if n tokens are ready or
// ordered. pays returns true up to some n and false for all greater n.
func (v *expectation) pays(n int, k *Params) bool {
	if n == 0 {
		if v.longer > 0 {
			return worthOne(k.MaxWaste, v.use.ge(1))
		}
		return worthOne(k.MaxWaste, min(v.whole.ge(1), v.late)) && !v.isTooEarly(k.MaxWaste)
	}
	risk, used := v.risk(n), v.use.ge(n+1)
	if v.longer == 0 {
		used = min(used, v.late)
	}
	return risk > 1-k.HitRate && cheaper*k.MaxWaste*risk*used >= 1-used
}

func worthOne(price, used float64) bool { return price*used >= 1-used }

// isTooEarly reports whether an order now is too early. The token of a delayed order would be ready
// for more requests at the end of its life and for fewer requests at the beginning. The price is
// the weight of the requests at the beginning.
func (v *expectation) isTooEarly(price float64) bool {
	if v.gaps.weight <= 0 {
		return false
	}
	step := earlyStep * v.life
	return v.gaps.endsWithin(v.life+step)-v.gaps.endsWithin(v.life) > (1+price)*v.gaps.endsWithin(v.q85+step)
}

// enough returns the smallest number of tokens beyond which another token does not pay.
// The result is at most the argument maximum.
func (v *expectation) enough(k *Params, maximum int) int {
	// The search begins with small n, which are the most frequent results and the cheapest to
	// compute.
	limit := 0
	for limit < maximum && v.pays(limit, k) {
		limit = 2*limit + 1
	}
	least := (limit + 1) / 2
	return least + sort.Search(min(limit, maximum)-least, func(n int) bool { return !v.pays(least+n, k) })
}

// enoughInTime is like the method enough, but for a target that must wait for the time gap between
// two orders. enoughInTime adds tokens that are needed later but could not all be ordered in time.
func (v *expectation) enoughInTime(k *Params, maximum int, gap float64) int {
	want := v.enough(k, maximum)
	if gap < manySlots*v.q50 {
		return want
	}
	for step := 1; step <= slotSteps; step++ {
		v.longer = v.life * float64(step) / slotSteps
		v.prepare(&v.later, v.q50+v.longer)
		want = max(want, v.enough(k, maximum)-int(v.longer/gap))
	}
	v.longer = 0
	return want
}

// expected returns the mean number of requests within a lead time. For a large mean, it
// uses only the rate, because the table would change the result little.
func (v *expectation) expected() float64 {
	if mean := v.rate * v.q50; mean > exactUpTo/2 {
		return mean
	}
	return v.soon[1].served(exactUpTo)
}
