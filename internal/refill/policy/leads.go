package policy

import (
	"math"
	"slices"
	"time"
)

const (
	// leadsKept is the maximum number of stored lead times, the same as in the stock.
	leadsKept = 48
	// At each completed solve the share of failures is multiplied by failDecay.
	failDecay = 0.98
	// failPrior is the assumed share of failures before the first completed solve.
	failPrior = 1.0 / 14
)

// guessSpread contains the factors by which the assumed lead time is spread before the first solve.
// The factors are quantiles of a lognormal distribution with sigma 0.45.
var guessSpread = [...]float64{0.54, 0.74, 0.91, 1.1, 1.35, 1.86}

// solves holds the lead times and the failures of a target's solves.
type solves struct {
	leads  []float32 // lead times of the last successful solves in seconds, oldest first; at most leadsKept
	fails  float64   // share of solves that fail
	streak uint32    // failures in a row

	sorted []float32 // leads or the assumed lead times, ascending; set by sortLeads
}

// landed adds the lead time of a successful solve. The caller must call sortLeads
// afterwards.
func (s *solves) landed(lead time.Duration) {
	if len(s.leads) == leadsKept {
		s.leads = slices.Delete(s.leads, 0, 1)
	}
	s.leads = append(s.leads, leadSeconds(lead))
	s.fails *= failDecay
	s.streak = 0
}

// replace sets the lead times from a list, newest first. The caller must call sortLeads afterwards.
func (s *solves) replace(leads []time.Duration) {
	s.leads = s.leads[:0]
	for _, lead := range slices.Backward(leads[:min(len(leads), leadsKept)]) {
		s.leads = append(s.leads, leadSeconds(lead))
	}
}

func leadSeconds(lead time.Duration) float32 { return float32(max(0, lead).Seconds()) }

// failed adds a failed solve. After FailuresInARow failures in a row, further failures
// count as an outage and do not change the share of failures. Otherwise far too many orders would
// be placed after the outage.
func (s *solves) failed() {
	if s.streak < FailuresInARow {
		s.fails = s.fails*failDecay + 1 - failDecay
	}
	if s.streak < math.MaxUint32 {
		s.streak++
	}
}

// sortLeads sorts the known lead times. If there are none, it assumes lead times close to the
// argument guess.
func (s *solves) sortLeads(guess time.Duration) {
	s.sorted = append(s.sorted[:0], s.leads...)
	if len(s.leads) == 0 {
		for _, share := range guessSpread {
			s.sorted = append(s.sorted, float32(share*guess.Seconds()))
		}
	}
	slices.Sort(s.sorted)
}

// quantile returns the quantile f of the lead times in seconds.
func (s *solves) quantile(f float64) float64 {
	last := len(s.sorted) - 1
	place := f*float64(len(s.sorted)) - 0.5
	i := int(place)
	switch {
	case last < 0:
		return 0
	case place <= 0:
		return float64(s.sorted[0])
	case i >= last:
		return float64(s.sorted[last])
	}
	here, next := float64(s.sorted[i]), float64(s.sorted[i+1])
	return here + (place-float64(i))*(next-here)
}
