package policy

import (
	"math"
	"slices"
	"time"
)

const (
	// leadsKept is how many lead times are remembered, as many as the stock does.
	leadsKept = 48
	// failDecay is what one completion leaves of the failure share so far.
	failDecay = 0.98
	// failPrior is the failure share of a target that has seen no completion.
	failPrior = 1.0 / 14
)

// guessSpread is how lead times that nobody has seen yet lie around the guess:
// quantiles of a lognormal with sigma 0.45.
var guessSpread = [...]float64{0.54, 0.74, 0.91, 1.1, 1.35, 1.86}

// solves is what is known about the provider's side: how long a solve takes and
// how often it fails. Pure data, saved with the State.
type solves struct {
	leads  [leadsKept]float32 // seconds, of successful solves; a ring
	n      uint8              // of leads
	next   uint8              // where the next one goes
	fails  float64            // share of solves that fail
	streak uint32             // failures in a row

	sorted [leadsKept]float32 // in ascending order; derived from leads, or the guess where there is none
	many   int                // of sorted
}

// landed notes a solve that took lead. sort is to be called after.
func (s *solves) landed(lead time.Duration) {
	s.leads[s.next] = float32(max(0, lead).Seconds())
	s.next = (s.next + 1) % leadsKept
	s.n = min(s.n+1, leadsKept)
	s.fails *= failDecay
	s.streak = 0
}

// replace takes the lead times of a list, newest first. sort is to be called after.
func (s *solves) replace(leads []time.Duration) {
	leads = leads[:min(len(leads), leadsKept)]
	for i, lead := range leads {
		s.leads[len(leads)-1-i] = float32(max(0, lead).Seconds())
	}
	s.n = uint8(len(leads)) //nolint:gosec // G115: at most leadsKept
	s.next = s.n % leadsKept
}

// failed notes a solve without a token. A long row of failures is an outage and
// says nothing about the share: counted in, it would have the first good minute
// order a dozen times too much.
func (s *solves) failed() {
	if s.streak < FailuresInARow {
		s.fails = s.fails*failDecay + 1 - failDecay
	}
	if s.streak < math.MaxUint32 {
		s.streak++
	}
}

// sort brings the known lead times in order, or the guess where none is known.
func (s *solves) sort(guess time.Duration) {
	s.many = int(s.n)
	for i := range s.many {
		s.sorted[i] = s.leads[i]
	}
	if s.n == 0 {
		for _, share := range guessSpread {
			s.sorted[s.many] = float32(share * guess.Seconds())
			s.many++
		}
	}
	slices.Sort(s.sorted[:s.many])
}

// quantile is the lead time in seconds below which the share f of them lies.
func (s *solves) quantile(f float64) float64 {
	if s.many == 0 {
		return 0
	}
	place := f*float64(s.many) - 0.5
	i := int(place)
	switch {
	case place <= 0:
		return float64(s.sorted[0])
	case i >= s.many-1:
		return float64(s.sorted[s.many-1])
	}
	here, next := float64(s.sorted[i]), float64(s.sorted[i+1])
	return here + (place-float64(i))*(next-here)
}
