package policy

import "math"

// forecast is the distribution of the number of requests in a period: element n is the probability of at least n. For
// an n beyond the last element the probability is negligible.
type forecast []float64

const (
	negligible = 1e-4
	// mostCounted limits the number of requests in a forecast, and the number that one call of Learn adds.
	mostCounted = 20_000
)

func (f forecast) atLeast(n int) float64 {
	if n < len(f) {
		return f[n]
	}
	return 0
}

// served returns how many of n tokens are requested on average.
func (f forecast) served(n int) (sum float64) {
	for k := 1; k <= n && k < len(f); k++ {
		sum += f[k]
	}
	return sum
}

// fromRate forecasts the next x seconds, in the scale of the memory, from the rate alone. The rate has a gamma
// distribution, so the number of requests has a negative binomial one.
func fromRate(shape, x float64) forecast {
	window := 2 * calibrated.decay
	share := max(x, 1e-3) / (max(x, 1e-3) + window)
	mean := shape * share / (1 - share)
	n := math.Floor(max(0, mean-8*math.Sqrt(mean/(1-share)))) // fewer are impossible
	gamma := func(x float64) float64 { g, _ := math.Lgamma(x); return g }
	term := math.Exp(gamma(n+shape) - gamma(n+1) - gamma(shape) + shape*math.Log1p(-share) + n*math.Log(share))
	f := make(forecast, 0, min(int(n), mostCounted)+64)
	for range min(int(n), mostCounted) {
		f = append(f, 1)
	}
	for left := 1.0; left > negligible && len(f) <= mostCounted; n++ {
		f = append(f, left)
		left -= term
		term *= (n + shape) / (n + 1) * share
	}
	return f
}

// mix adds to a forecast what followed similar past moments: counts[n] of the weight sum were followed by n requests.
func (f forecast) mix(counts []float64, sum float64) forecast {
	for len(f) < len(counts) {
		f = append(f, 0)
	}
	above := 0.0
	for n := len(f) - 1; n >= 0; n-- {
		if n < len(counts) {
			above += counts[n]
		}
		f[n] = (calibrated.rateWeight*f[n] + above) / (calibrated.rateWeight + sum)
	}
	return f
}
