package worth

import "math"

const (
	// memory is the number of outcomes whose weight is at least 1/e.
	memory = 80
	// An unknown share is priorShare, with the weight of priorWeight outcomes.
	priorShare, priorWeight = 0.9, 2
	// bound is the distance of the lower confidence bound from the mean, in standard deviations.
	bound = 1
	// A test decides for a change if its log likelihood ratio reaches decides, or for a recovery if it
	// reaches recovers. A wrong decision for a change is expensive, because only exploration corrects
	// it; a wrong decision for a recovery is soon corrected. While a share stays between 0.7 and 0.95, less
	// than one outcome in 1,000 causes a wrong decision. At 0.5, it is less than one in 500.
	decides, recovers = 7, 4
	// The tests assume that a share is neither 0 nor 1.
	leastShare, mostShare = 0.02, 0.98
)

// Share estimates the share of successes. The zero value knows no outcome.
type Share struct {
	outcomes, successes float64 // decayed counts
	halved, doubled     change
}

// change is a sequential test for a change of a share.
type change struct {
	ratio               float64 // log likelihood ratio of the change against no change; at least 0
	outcomes, successes float64 // since the ratio was 0
}

// Add adds an outcome. It returns true if the share has changed suddenly, so that only the outcomes
// since the change count.
func (s *Share) Add(success bool) (changed bool) {
	before := min(max(s.Mean(), leastShare), mostShare)
	s.fade()
	s.outcomes++
	if success {
		s.successes++
	}
	down := s.halved.add(before, before/2, success) >= decides
	up := s.doubled.add(before, (1+before)/2, success) >= recovers
	switch {
	case down:
		s.restart(s.halved)
	case up:
		s.restart(s.doubled)
	}
	return down || up
}

// add adds an outcome, and returns the log likelihood ratio of a change from one share to another.
func (c *change) add(from, to float64, success bool) float64 {
	if success {
		c.ratio += math.Log(to / from)
		c.successes++
	} else {
		c.ratio += math.Log((1 - to) / (1 - from))
	}
	c.outcomes++
	if c.ratio <= 0 {
		*c = change{}
	}
	return c.ratio
}

// restart keeps only the outcomes since the change.
func (s *Share) restart(c change) {
	n := min(c.outcomes, memory)
	*s = Share{outcomes: n, successes: n * c.successes / c.outcomes}
}

// keep is the factor by which an outcome reduces the weight of the outcomes before it.
var keep = math.Exp(-1.0 / memory)

// fade reduces the weight of the known outcomes as if another outcome had been added.
func (s *Share) fade() {
	s.outcomes, s.successes = s.outcomes*keep, s.successes*keep
}

// Outcomes returns the weight of the known outcomes; at most about memory.
func (s *Share) Outcomes() float64 { return s.outcomes }

// Mean returns the estimated share.
func (s *Share) Mean() float64 {
	return (s.successes + priorWeight*priorShare) / (s.outcomes + priorWeight)
}

// Lower returns the lower confidence bound of the share; at least leastShare.
func (s *Share) Lower() float64 {
	mean := s.Mean()
	return max(leastShare, mean-bound*math.Sqrt(mean*(1-mean)/(s.outcomes+priorWeight+1)))
}
