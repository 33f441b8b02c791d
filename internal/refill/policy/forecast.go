package policy

import "math"

const (
	// countDecay is the time constant of the decayed count of requests.
	countDecay = 60.0
	// fallbackWindow and fallbackPrior make the count a gamma-distributed rate:
	// shape 2*count + prior, per window.
	fallbackWindow = 2 * countDecay
	fallbackPrior  = 0.02
	// fallbackWeight is how many samples of the table the fallback weighs as much as.
	fallbackWeight = 2.0
	// exactUpTo is the largest n whose probability is summed up term by term.
	exactUpTo = 64
	// leastStart is the smallest probability of no request from which the sum
	// can be built up; below it the terms vanish before they grow.
	leastStart = 1e-280
	// leastForecast is the shortest time, in scaled seconds, that is looked ahead.
	leastForecast = 1e-3
	// Probabilities below negligible are not summed up any more, and beyond
	// exactUpTo only every servedStep-th one, or fewer, is computed.
	negligible = 1e-3
	servedStep = 16
)

// forecast answers "how likely are at least n requests within this time", for one
// length of time and one moment. It is made for a decision and thrown away.
type forecast struct {
	shape, share float64 // of the gamma-Poisson: P(k+1) = P(k)*(k+shape)/(k+1)*share
	exact        bool    // the first terms do not vanish
	term         float64 // P(known)
	known        int
	atLeast      [exactUpTo + 1]float64 // for n <= known

	near, far *exceedance // histograms of the horizons around it; nil = nothing known
	nearShift float64     // log of what n is multiplied by to look it up
	farShift  float64
	part      float64 // 0 = only near, 1 = only far

	first float64 // what the gaps say of the first request, as a factor
}

// fallback prepares a forecast for the next x seconds from the shape alone.
func (a *forecast) fallback(x, shape float64) {
	a.shape, a.share = shape, x/(x+fallbackWindow)
	a.term = math.Exp(-shape * math.Log1p(x/fallbackWindow))
	a.exact = a.term > leastStart
	a.atLeast[0], a.known = 1, 0
	a.near, a.far, a.part = nil, nil, 0
	a.first = 1
}

// poisson is the fallback's probability of at least n.
func (a *forecast) poisson(n int) float64 {
	if n > exactUpTo || !a.exact {
		return a.tail(n)
	}
	for a.known < n {
		k := float64(a.known)
		a.atLeast[a.known+1] = max(0, a.atLeast[a.known]-a.term)
		a.term *= (k + a.shape) / (k + 1) * a.share
		a.known++
	}
	return a.atLeast[n]
}

// ge is the probability of at least n requests.
func (a *forecast) ge(n int) float64 {
	if n <= 0 {
		return 1
	}
	return a.first * a.many(n)
}

// many is what fallback and table say of it.
func (a *forecast) many(n int) float64 {
	p := a.poisson(n)
	if a.near == nil && a.far == nil {
		return p
	}
	log := logOf(n)
	if a.part <= 0 {
		return a.near.mix(p, log+a.nearShift)
	}
	if a.part >= 1 {
		return a.far.mix(p, log+a.farShift)
	}
	return (1-a.part)*a.near.mix(p, log+a.nearShift) + a.part*a.far.mix(p, log+a.farShift)
}

// logs holds the logarithms of the small n.
var logs = func() (l [exactUpTo + 1]float64) {
	for n := 1; n < len(l); n++ {
		l[n] = math.Log(float64(n))
	}
	return l
}()

func logOf(n int) float64 {
	if n < len(logs) {
		return logs[n]
	}
	return math.Log(float64(n))
}

// tail is P(N >= n) of the gamma-Poisson by its normal approximation, which is good
// enough where it is used: for large n or a large shape.
func (a *forecast) tail(n int) float64 {
	mean := a.shape * a.share / (1 - a.share)
	spread := math.Sqrt(mean / (1 - a.share))
	return 0.5 * math.Erfc((float64(n)-0.5-mean)/(spread*math.Sqrt2))
}
