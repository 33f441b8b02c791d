package refill

import "math"

// view is the demand as one decision sees it. Times are in scaled seconds.
type view struct {
	shape, rate float64
	life, q50   float64
	soon        [3]ahead // until a later order arrives: quantiles 20, 50 and 85 % of the lead time
	second      ahead    // or, where that one fails, the one after it
	use         ahead    // until a token that is ordered now expires
	whole       ahead    // a usable life
	ends        [horizons]float64
	looks       *[horizons]outlook // nil where the table knows nothing of the situation
}

// foresee prepares the forecasts of this moment. They point into m.thought.
func (m *Mind) foresee(v *view) {
	v.shape = 2*m.countNow() + fallbackPrior
	v.rate = v.shape / fallbackWindow
	v.life = m.knobs.Usable.Seconds() / m.scale
	v.ends = m.ends()
	if m.last > 0 && m.table != nil {
		if c := m.table.cells[situation((m.now-m.last)/m.scale, m.busy)]; c != nil {
			v.looks = &m.thought.looks
			for h := range c {
				v.looks[h].look(&c[h], v.ends[h]*v.rate)
			}
		}
	}
	q20, q50 := m.solves.quantile(0.2)/m.scale, m.solves.quantile(0.5)/m.scale
	v.q50 = q50
	v.prepare(&v.soon[0], q20)
	v.prepare(&v.soon[1], q50)
	v.prepare(&v.soon[2], m.solves.quantile(0.85)/m.scale)
	v.prepare(&v.second, q50+m.solves.quantile(0.7)/m.scale)
	// A token that arrives early dies early: with the median in place of q20, slow
	// providers (a lead of half a life) had half as much again expire.
	v.prepare(&v.use, q20+v.life)
	v.prepare(&v.whole, v.life)
}

// prepare makes the forecast for the next x.
func (v *view) prepare(a *ahead, x float64) {
	x = max(x, leastAhead)
	a.fallback(x, v.shape)
	if v.looks == nil {
		return
	}
	h := 0
	for h < horizons && v.ends[h] <= x {
		h++
	}
	switch h {
	case 0:
		a.near, a.nearShift = &v.looks[0], math.Log(v.ends[0]/x)
	case horizons:
		a.near, a.nearShift = &v.looks[horizons-1], math.Log(v.ends[horizons-1]/x)
	default:
		a.near, a.far = &v.looks[h-1], &v.looks[h]
		a.part = (x - v.ends[h-1]) / (v.ends[h] - v.ends[h-1])
	}
}

// risk is how likely a request finds nothing before a later order arrives, with n
// tokens ahead of it.
func (v *view) risk(n int, fails float64) float64 {
	return (1-fails)*(0.3*v.soon[0].ge(n)+0.4*v.soon[1].ge(n)+0.3*v.soon[2].ge(n)) + fails*v.second.ge(n)
}

// pays is the rule: is one more token worth its price with n ahead? It holds up
// to some n and for no greater one.
func (v *view) pays(n int, k *Knobs, fails float64) bool {
	if n == 0 {
		some := v.whole.ge(1)
		return k.MaxWaste*some >= 1-some
	}
	risk, used := v.risk(n, fails), v.use.ge(n+1)
	return risk > 1-k.HitRate && cheaper*k.MaxWaste*risk*used >= 1-used
}

// enough is the smallest n at which one more does not pay, at most most.
func (v *view) enough(k *Knobs, fails float64, most int) int {
	if most <= 0 || !v.pays(0, k, fails) {
		return 0
	}
	pays, not := 0, most
	for step := 1; pays+step < most; step *= 2 {
		if !v.pays(pays+step, k, fails) {
			not = pays + step
			break
		}
		pays += step
	}
	for not-pays > 1 {
		if middle := (pays + not) / 2; v.pays(middle, k, fails) {
			pays = middle
		} else {
			not = middle
		}
	}
	return not
}

// expected is how many requests come within a lead time, on average; of so many
// that the table knows little more of them than the rate does, as the rate has it.
func (v *view) expected() float64 {
	if mean := v.rate * v.q50; mean > exactUpTo/2 {
		return mean
	}
	return v.soon[1].served(exactUpTo)
}

// served is how many of n tokens are asked for in that time, on average.
func (a *ahead) served(n int) float64 {
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
