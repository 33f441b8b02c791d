package refill

import "math"

// The rails: what keeps a target from wanting or ordering what its forecast asks.
const (
	RailNone   = ""
	RailDepth  = "depth"  // the cap of the file, or of the warm window
	RailCredit = "credit" // too many tokens expired for the hits that came
	RailProbe  = "probe"  // the last orders all failed: one at a time
	RailIdle   = "idle"   // nobody asked for idle_after
	RailPaused = "paused"
)

const (
	// A new target may waste creditLeast tokens, or creditMisses misses' worth,
	// before its requests have earned any; creditTimes that is the most saved up.
	creditLeast  = 10.0
	creditMisses = 5.0
	creditTimes  = 16.0
	// A hit earns max_waste, a miss this part of it: who never finds a token pays at
	// most so much more than for buying nothing.
	missEarns = 0.05
)

func (m *Mind) creditStart() float64 { return max(creditLeast, creditMisses*m.knobs.MaxWaste) }

func (m *Mind) creditMost() float64 { return creditTimes * m.creditStart() }

// earn adds to the credit what a request earns.
func (m *Mind) earn(hit bool) {
	earned := missEarns * m.knobs.MaxWaste
	if hit {
		earned = m.knobs.MaxWaste
		m.hits = m.hitsNow() + 1
		m.hit = m.now
	}
	m.credit = min(m.credit+earned, m.creditMost())
}

// hitsNow is the decayed count of hits.
func (m *Mind) hitsNow() float64 { return m.decayed(m.hits, m.hit) }

// affordable is how many tokens may be held: should all of them expire, the credit
// pays for those beyond what was used of late.
func (m *Mind) affordable() int { return int(max(0, m.credit+m.hitsNow())) }

// spare is the credit of an adaptive target, 0 for a fixed one, which has none.
func (m *Mind) spare() float64 {
	if !m.knobs.Adaptive {
		return 0
	}
	return m.credit
}

// charged is how many of n expiries are charged to the credit: not those that the
// floor costs anyway, about as many as it holds in each usable life. Otherwise keeping a
// few tokens for nobody would end the buying for those who do ask.
func (m *Mind) charged(n int) float64 {
	m.accrue()
	own := min(float64(n), math.Floor(m.free))
	m.free -= own
	return float64(n) - own
}

// accrue brings free up to date; the floor must have been as it is now since.
func (m *Mind) accrue() {
	floor := float64(m.floor())
	since := max(0, m.now-m.freeAt)
	m.freeAt = m.now
	// A token of the floor is replaced up to a lead time before it dies.
	life := m.knobs.Usable.Seconds()
	if cycle := max(life-m.solves.quantile(floorLead), life/2); cycle > 0 {
		m.free = max(m.free, min(m.free+floor*since/cycle, floor))
	}
}

// creditLowest is the deepest debt: what expires after the credit is used up, all
// that was held then, is paid back.
func (m *Mind) creditLowest() float64 { return -max(m.creditMost(), float64(m.most())) }

// most is the cap: depth, or more in a warm window.
func (m *Mind) most() int { return max(0, m.knobs.Depth, m.warm) }

// held is how many tokens and orders there may be: the cap, or what the credit pays
// for should all of them expire.
func (m *Mind) held() int { return max(m.floor(), min(m.most(), m.affordable())) }

// full is the rail of a target that holds the most it may.
func (m *Mind) full(most int) string {
	if most < m.most() {
		return RailCredit
	}
	return RailDepth
}

// floor is what is kept whatever the demand.
func (m *Mind) floor() int { return min(max(m.knobs.Min, m.warm), m.most()) }

// rails clamps what is asked to what is allowed.
func (m *Mind) rails(asked int) (want int, rail string) {
	floor, most := m.floor(), m.most()
	switch {
	case asked <= floor:
		return floor, RailNone
	case m.idle():
		return floor, RailIdle
	case m.knobs.Adaptive && min(asked, most) > m.affordable():
		return max(floor, m.affordable()), RailCredit
	case m.knobs.Adaptive && asked >= most:
		return most, RailDepth
	}
	return min(asked, most), RailNone
}

// silence is how many seconds nobody has asked, from the first event on.
func (m *Mind) silence() float64 { return m.now - max(m.last, m.start) }

// idle: nobody asked for idle_after.
func (m *Mind) idle() bool {
	return m.knobs.IdleAfter > 0 && m.silence() >= m.knobs.IdleAfter.Seconds()
}

// probe applies Throttle to a decision.
func (m *Mind) probe(d Decision) Decision {
	since := Never
	if m.placed > 0 {
		since = inSeconds(m.now - m.placed)
	}
	throttled := Throttle(d, int(min(m.solves.streak, math.MaxInt32)), since)
	if throttled.Order != d.Order {
		throttled.Rail = RailProbe
	}
	return throttled
}
