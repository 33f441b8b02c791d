package policy

import "math"

const (
	// countDecay is the time constant, in scaled seconds, with which the count of requests decays.
	countDecay = 60.0
	// The request rate of the fallback is gamma-distributed, with the shape 2*count + fallbackPrior
	// per fallbackWindow.
	fallbackWindow = 2 * countDecay
	fallbackPrior  = 0.02
	// fallbackWeight is the weight of the fallback, in samples of the table.
	fallbackWeight = 2.0
	// exactUpTo is the largest n for which the probabilities up to n are summed term by term.
	exactUpTo = 64
	// leastStart is the smallest P(0) with which the sum does not underflow.
	leastStart = 1e-280
	// leastForecast is the shortest forecast, in scaled seconds.
	leastForecast = 1e-3
	// A sum ends at the first probability that is less than the constant negligible. Beyond exactUpTo,
	// at most every servedStep-th probability is computed.
	negligible = 1e-3
	servedStep = 16
)

// forecast is the distribution of the number of requests within a period that begins now.
type forecast struct {
	shape, share float64 // parameters of the gamma-Poisson: P(k+1) = P(k)*(k+shape)/(k+1)*share
	exact        bool    // whether the first terms do not underflow
	term         float64 // P(known)
	known        int
	atLeast      [exactUpTo + 1]float64 // P(at least n requests) for n <= known

	near, far *exceedance // histograms of the horizons before and after the period's end; nil = no samples
	nearShift float64     // added to log n for a lookup in near
	part      float64     // weight of far

	first float64 // factor by which the gaps correct all probabilities
}

// fallback prepares a forecast of the next x scaled seconds from the shape alone.
func (a *forecast) fallback(x, shape float64) {
	a.shape, a.share = shape, x/(x+fallbackWindow)
	a.term = math.Exp(-shape * math.Log1p(x/fallbackWindow))
	a.exact = a.term > leastStart
	a.atLeast[0], a.known = 1, 0
	a.near, a.far, a.nearShift, a.part = nil, nil, 0, 0
	a.first = 1
}

// poisson returns the fallback's probability of at least n requests.
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

func (a *forecast) ge(n int) float64 {
	if n <= 0 {
		return 1
	}
	return a.first * a.withoutGaps(n)
}

// withoutGaps returns the probability of at least n requests according to the fallback and the
// table.
func (a *forecast) withoutGaps(n int) float64 {
	p := a.poisson(n)
	if a.near == nil {
		return p
	}
	log := logOf(n)
	near := a.near.mix(p, log+a.nearShift)
	if a.far == nil {
		return near
	}
	return (1-a.part)*near + a.part*a.far.mix(p, log)
}

var logs = func() (l [exactUpTo + 1]float64) {
	for n := 1; n < len(l); n++ {
		l[n] = math.Log(float64(n))
	}
	return l
}()

// logOf returns log n from a table, because math.Log would take a quarter of the time of a plan.
func logOf(n int) float64 {
	if n < len(logs) {
		return logs[n]
	}
	return math.Log(float64(n))
}

// tail returns P(N >= n) of the gamma-Poisson by its normal approximation. The approximation is close
// enough for a large n or a large shape.
func (a *forecast) tail(n int) float64 {
	mean := a.shape * a.share / (1 - a.share)
	spread := math.Sqrt(mean / (1 - a.share))
	return 0.5 * math.Erfc((float64(n)-0.5-mean)/(spread*math.Sqrt2))
}

// served returns how many of n tokens are requested on average within the period.
func (a *forecast) served(n int) float64 {
	sum, last := 0.0, 1.0
	// For small k, every probability is added. For greater k, the steps between the added
	// probabilities grow.
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
