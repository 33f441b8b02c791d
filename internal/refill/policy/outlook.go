package policy

import "math"

// outlook has the forecasts made at one time.
type outlook struct {
	*Learned
	p     *Params
	now   float64
	alike []moment
	life  float64     // usable life in seconds
	soon  [3]forecast // until a later order lands
	use   forecast    // until a token that is ordered now expires
	late  float64     // P(a request while a token that is ordered now is ready)
}

func (l *Learned) outlook(p *Params, now float64) *outlook {
	o := &outlook{Learned: l, p: p, now: now, life: p.Usable.Seconds()}
	if l.memory.last > 0 {
		o.alike = l.memory.similar(now)
	}
	for i, quantile := range calibrated.leads {
		o.soon[i] = o.within(l.lead(p, quantile))
	}
	median := l.lead(p, 0.5)
	o.use = o.within(median + o.life)
	counts, sum := l.memory.followed(o.alike, now, median, median+o.life)
	o.late = forecast{1, o.rate(o.life).atLeast(1)}.mix(counts, sum).atLeast(1)
	return o
}

func (o *outlook) rate(x float64) forecast {
	m := &o.memory
	return fromRate(2*m.countAt(o.now)+calibrated.prior, x/m.scale)
}

// within forecasts the requests of the next x seconds.
func (o *outlook) within(x float64) forecast {
	return o.rate(x).mix(o.memory.followed(o.alike, o.now, 0, x))
}

// company distinguishes lone requests at regular intervals from random demand. It compares how often a request like the
// last one is followed by another within a lead time with how often chance would cause this. If it happens much more
// rarely, the result is the ratio, which is below 1; else the result is 1.
func (l *Learned) company(p *Params) float64 {
	m, lead := &l.memory, l.lead(p, 0.5)
	counts, sum := m.followed(m.similar(m.last), m.last, 0, lead)
	chance := fromRate(2*m.count+calibrated.prior, lead/m.scale).atLeast(1)
	if chance == 0 {
		return 1
	}
	return min(1, forecast{1, chance}.mix(counts, sum).atLeast(1)/chance/calibrated.alone)
}

// risk returns the probability that a request finds no token before a later order lands, if n tokens are ready or
// ordered.
func (o *outlook) risk(n int) (p float64) {
	for i, weight := range calibrated.weights {
		p += weight * o.soon[i].atLeast(n)
	}
	return o.rareness * p
}

// pays reports whether one more token is worth its price if n tokens are ready or ordered.
func (o *outlook) pays(n int) bool {
	price := o.p.MissCost
	if n == 0 {
		used := min(o.within(o.life).atLeast(1), o.late)
		return price*used >= 1-used
	}
	risk, used := o.risk(n), min(o.use.atLeast(n+1), o.late)
	return risk > 1-o.p.HitRate && calibrated.cheaper*price*risk*used >= 1-used
}

// enough returns the number of tokens beyond which one more does not pay, limited to `most`. If permits are scarce,
// enough adds tokens that will be needed within the life of a token and could not all be ordered in time.
func (o *outlook) enough(most int) (want int) {
	for want < most && o.pays(want) {
		want++
	}
	gap, steps, median := o.permits.gap/max(0.1, 1-o.fails), 8, o.lead(o.p, 0.5)
	if gap < median/64 {
		return want
	}
	for i := 1; i <= steps; i++ {
		longer := o.life * float64(i) / float64(steps)
		later, n := o.within(median+longer), 0
		for ; n < most; n++ {
			risk, used := o.rareness*later.atLeast(n), o.use.atLeast(n+1)
			if n > 0 && risk <= 1-o.p.HitRate || calibrated.cheaper*o.p.MissCost*risk*used < 1-used {
				break
			}
		}
		want = max(want, n-int(math.Floor(longer/gap)))
	}
	return want
}
