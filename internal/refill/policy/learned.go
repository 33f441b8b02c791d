package policy

import (
	"math"
	"slices"
	"time"
)

// Learned is the learned state of a target: its demand and its provider. It must be used by one goroutine at a time.
// A time before the latest one counts as the latest. All times are in Unix seconds.
type Learned struct {
	memory   memory
	rareness float64   // see company; 0 = to be computed
	leads    []float64 // in seconds, sorted; from the last counts
	fails    float64   // share of solves that fail
	credit   credit
	permits  permits
	seen     Totals  // of the last Learn
	knows    bool    // seen is set
	start    float64 // time of the first Learn
	now      float64 // of the last Learn
	placed   float64 // time of the last order
}

// NewLearned returns the state of a target that has learned nothing.
func NewLearned(p Params) *Learned {
	return &Learned{memory: memory{scale: 1}, rareness: 1, fails: calibrated.failPrior,
		credit: credit{left: startCredit(&p)}}
}

// Learn learns from the events since the last call, and reports whether there was a request. At the first call, and
// after Redis has lost its data, the earlier events are unknown.
func (l *Learned) Learn(p Params, c *Snapshot, at time.Time) (requested bool) {
	now, then, m := max(l.now, unix(at)), l.seen, &l.memory
	if !l.knows || c.Totals.Requests < then.Requests || c.Totals.Solved < then.Solved {
		then = c.Totals
	}
	if l.start == 0 {
		l.start = now
	}
	l.leads = l.leads[:0]
	for _, lead := range c.Leads {
		l.leads = append(l.leads, max(0, lead.Seconds()))
	}
	slices.Sort(l.leads)
	l.fitScale(&p)
	requests := min(c.Totals.Requests-then.Requests, mostCounted)
	if requests > 0 {
		l.credit.earn(&p, float64(c.Totals.Hits-then.Hits), float64(requests), now, m.scale)
		if p.Adaptive {
			m.add(now, requests)
			l.rareness = 0
		} else { // a fixed depth needs no forecast
			m.count, m.last = m.countAt(now)+float64(requests), now
		}
	}
	if l.rareness == 0 {
		l.rareness = l.company(&p)
	}
	l.fails *= math.Pow(calibrated.failDecay, float64(c.Totals.Solved-then.Solved))
	if c.FailedInARow < FailingAfter { // an outage says nothing of the usual share
		l.fails = 1 - (1-l.fails)*math.Pow(calibrated.failDecay, float64(c.Totals.Failed-then.Failed))
	}
	life := p.Usable.Seconds()
	l.credit.charge(&p, float64(c.Totals.Expired-then.Expired), at, max(life-l.lead(&p, calibrated.floorLead), life/2))
	l.seen, l.knows, l.now = c.Totals, true, now
	return requests > 0
}

// fitScale stretches the constants if the lead times have become very different.
func (l *Learned) fitScale(p *Params) {
	if len(l.leads) < leadsToScale && l.memory.last > 0 {
		return
	}
	ideal := min(max(l.lead(p, 0.5)/usualLead, leastScale), mostScale)
	if far := l.memory.scale / ideal; far > farFactor || far < 1/farFactor {
		l.memory.rescale(ideal)
	}
}

// lead returns a quantile of the lead times in seconds.
func (l *Learned) lead(p *Params, quantile float64) float64 {
	if len(l.leads) < leadsToLearn {
		return p.guess().Seconds()
	}
	place := max(0, quantile*float64(len(l.leads))-0.5)
	i := min(int(place), len(l.leads)-1)
	above := l.leads[min(i+1, len(l.leads)-1)]
	return min(l.leads[i]+(place-float64(i))*(above-l.leads[i]), p.Usable.Seconds())
}

// credit counts how many tokens may still be wasted: requests earn it, expired tokens use it up.
type credit struct {
	left         float64 // negative = a debt
	hits, hitAt  float64 // recent hits, decayed; not saved
	free, freeAt float64 // expiries that cost nothing, because min and windows cause them; not saved
}

func startCredit(p *Params) float64 {
	return max(calibrated.startLeast, calibrated.startMisses*p.MissCost)
}

func (c *credit) earn(p *Params, hits, requests, now, scale float64) {
	c.left += p.MissCost * (hits + calibrated.missEarns*(requests-hits))
	c.left = min(c.left, calibrated.saveUp*startCredit(p))
	c.hits, c.hitAt = c.recent(now, scale)+hits, now
}

func (c *credit) recent(now, scale float64) float64 {
	return c.hits * math.Exp((c.hitAt-now)/(calibrated.decay*scale))
}

// affords returns how many tokens may be kept: the credit that is left, plus the number of tokens that were used
// lately, because as many will soon be used again.
func (c *credit) affords(now, scale float64) int { return int(max(0, c.left+c.recent(now, scale))) }

// charge subtracts expired tokens from the credit. Expiries of the tokens that are kept even without demand are free:
// each of these may expire once per cycle seconds.
func (c *credit) charge(p *Params, expired float64, at time.Time, cycle float64) {
	warm, _ := p.warm(at, 0)
	floor, now := float64(p.floor(warm)), unix(at)
	c.free = max(c.free, min(c.free+floor*max(0, now-c.freeAt)/cycle, floor))
	free := min(expired, math.Floor(c.free))
	c.free, c.freeAt = c.free-free, now
	c.left = max(c.left-(expired-free), -calibrated.saveUp*startCredit(p))
}

// permits estimates how soon a target gets its next permit at the provider while permits are scarce.
type permits struct {
	gap   float64 // mean seconds between two orders while orders wait
	since float64 // since when an order waits; 0 = none
}

// Ordered notes how many of the orders of a decision were placed.
func (l *Learned) Ordered(p Params, wanted, placed int, at time.Time) {
	s, now := &l.permits, unix(at)
	if s.since == 0 {
		s.since = now
	}
	for range placed {
		if waited := now - s.since; waited > l.lead(&p, 0.5)/64 {
			s.gap += (waited - s.gap) / calibrated.permitWaits
		} else {
			s.gap -= s.gap / calibrated.permitFree
		}
		s.since, l.placed = now, now
	}
	if placed >= wanted {
		s.since = 0
	}
}

func unix(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }

// inSeconds converts seconds to a duration. A number that no duration can hold becomes Never.
func inSeconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return Never
	}
	return time.Duration(s * float64(time.Second))
}
