package policy

import (
	"math"
	"time"
)

// What keeps a target from wanting or ordering what its forecast asks.
const (
	LimitNone   = ""
	LimitDepth  = "depth"  // the cap of the file, or of the warm window
	LimitCredit = "credit" // too many tokens expired for the hits that came
	LimitProbe  = "probe"  // the last orders all failed: one at a time
	LimitIdle   = "idle"   // nobody asked for idle_after
	LimitPaused = "paused"
)

const (
	// FailuresInARow of a target turn its orders into probes, of which one is placed
	// per ProbeEvery.
	FailuresInARow = 8
	ProbeEvery     = 5 * time.Second

	// A new target may waste creditLeast tokens, or creditMisses misses' worth,
	// before its requests have earned any; creditTimes that is the most saved up.
	creditLeast  = 10.0
	creditMisses = 5.0
	creditTimes  = 16.0
	// A hit earns max_waste, a miss this part of it: who never finds a token pays at
	// most so much more than for buying nothing.
	missEarns = 0.05
	// What is wanted is paid for by the credit, should all of it expire. Tokens on
	// their way out and orders that make up for failing ones come on top: of tokens and
	// orders there are never more than heldTimes what it pays for.
	heldTimes = 2
)

func (m *State) creditStart() float64 { return max(creditLeast, creditMisses*m.params.MaxWaste) }

func (m *State) creditMost() float64 { return creditTimes * m.creditStart() }

// earn adds to the credit what a request earns.
func (m *State) earn(hit bool) {
	earned := missEarns * m.params.MaxWaste
	if hit {
		earned = m.params.MaxWaste
		m.hits = m.hitsNow() + 1
		m.hit = m.now
	}
	m.credit = min(m.credit+earned, m.creditMost())
}

// hitsNow is the decayed count of hits.
func (m *State) hitsNow() float64 { return m.decayed(m.hits, m.hit) }

// affordable is how many tokens may be held: should all of them expire, the credit
// pays for those beyond what was used of late.
func (m *State) affordable() int { return int(max(0, m.credit+m.hitsNow())) }

// Credit is how many tokens may still expire before an adaptive target keeps only its
// `min`; 0 for a fixed one, which has none.
func (m *State) Credit() float64 {
	if !m.params.Adaptive {
		return 0
	}
	return m.credit
}

// charged is how many of n expiries are charged to the credit: not those that the
// floor costs anyway, about as many as it holds in each usable life. Otherwise keeping a
// few tokens for nobody would end the buying for those who do ask.
func (m *State) charged(n int) float64 {
	m.accrue()
	own := min(float64(n), math.Floor(m.free))
	m.free -= own
	return float64(n) - own
}

// accrue brings free up to date; the floor must have been as it is now since.
func (m *State) accrue() {
	floor := float64(m.floor())
	since := max(0, m.now-m.freeAt)
	m.freeAt = m.now
	// A token of the floor is replaced up to a lead time before it dies.
	life := m.params.Usable.Seconds()
	if cycle := max(life-m.solves.quantile(floorLead), life/2); cycle > 0 {
		m.free = max(m.free, min(m.free+floor*since/cycle, floor))
	}
}

// creditLowest is the deepest debt: what expires after the credit is used up, all
// that was held then, is paid back.
func (m *State) creditLowest() float64 { return -max(m.creditMost(), float64(m.most())) }

// most is the cap: depth, or more in a warm window.
func (m *State) most() int { return max(0, m.params.Depth, m.warm) }

// held is how many tokens and orders there may be: the cap, or heldTimes what the
// credit pays for.
func (m *State) held() int { return max(m.floor(), min(m.most(), heldTimes*m.affordable())) }

// full is the limit of a target that holds the most it may.
func (m *State) full(most int) string {
	if most < m.most() {
		return LimitCredit
	}
	return LimitDepth
}

// floor is what is kept whatever the demand.
func (m *State) floor() int { return min(max(m.params.Min, m.warm), m.most()) }

// limits clamps what is asked to what is allowed.
func (m *State) limits(asked int) (want int, limit string) {
	floor, most := m.floor(), m.most()
	switch {
	case asked <= floor:
		return floor, LimitNone
	case m.idle():
		return floor, LimitIdle
	case m.params.Adaptive && min(asked, most) > m.affordable():
		return max(floor, m.affordable()), LimitCredit
	case m.params.Adaptive && asked >= most:
		return most, LimitDepth
	}
	return min(asked, most), LimitNone
}

// silence is how many seconds nobody has asked, from the first event on.
func (m *State) silence() float64 { return m.now - max(m.last, m.start) }

// idle: nobody asked for idle_after.
func (m *State) idle() bool {
	return m.params.IdleAfter > 0 && m.silence() >= m.params.IdleAfter.Seconds()
}

// probe slows a target down whose last orders all failed: one order is placed per
// ProbeEvery, until one succeeds.
func (m *State) probe(d *Decision) {
	if m.solves.streak < FailuresInARow || d.Order == 0 {
		return
	}
	order, next := 1, ProbeEvery
	if left := ProbeEvery - inSeconds(m.now-m.placed); left > 0 {
		order, next = 0, left
	}
	if order < d.Order {
		d.Order, d.Limit = order, LimitProbe
	}
	d.Look = min(d.Look, next)
}
