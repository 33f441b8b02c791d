package refill

import (
	"math"
	"time"
)

// Knobs is what the file says about buying for one target.
type Knobs struct {
	Adaptive  bool          // false: keep Depth
	Depth     int           // fixed: kept; adaptive: the most ever kept and on order
	Min       int           // adaptive: kept whatever the demand; at most Depth
	HitRate   float64       // adaptive: wanted share of requests that find a token
	MaxWaste  float64       // adaptive: spare tokens that saving one caller a wait is worth
	IdleAfter time.Duration // no request for this long: fall to Min; 0 = never
	Usable    time.Duration // lifetime less margin

	// Of the provider that would be asked; their sum is the lead time that is
	// assumed while none is known.
	FirstPoll, PollInterval time.Duration
}

const (
	// usualLead is the lead time in seconds that the constants of the policy were
	// found for. A target whose lead times differ from it by more than farFactor
	// has all of them stretched in proportion, leastScale to mostScale times.
	usualLead  = 18.0
	farFactor  = 1.7
	leastScale = 0.005
	mostScale  = 200.0

	// nearHorizon and midHorizon are the first two horizons of the table; the
	// third one is the usable life, but at least lifeLeast and at most lifeMost,
	// and lifeBeyond.
	nearHorizon = 20.0
	midHorizon  = 40.0
	lifeBeyond  = 20.0
	lifeLeast   = 40.0
	lifeMost    = 600.0
)

// Mind is what is known about one target, and the memory of its policy: a value
// without clock, lock or I/O. Every method takes the time; one before the latest
// counts as that. Its owner calls it from one goroutine at a time. Where a
// comment says scaled seconds, a second is scale seconds of the clock.
type Mind struct {
	*knowledge
	follows bool // the knowledge is another Mind's: this one adds nothing to it

	knobs  Knobs
	now    float64 // the latest time, in unix seconds as all times here
	placed float64 // time of the last order; 0 = none yet
	credit float64 // tokens that may still be wasted
	hits   float64 // tokens handed out at once, decayed with countDecay, as of hit; not saved
	hit    float64
	slots  slots

	// Of the last wish; not saved.
	wish    Wish
	wished  float64  // when; 0 = it is to be made anew
	warm    int      // for which
	thought *thought // nil unless Adaptive

	// What the floor costs by itself is not charged to the credit.
	free   float64 // expiries that are still its own; not saved
	freeAt float64 // as of then
}

// knowledge is what was learned of demand and provider, whatever was bought.
type knowledge struct {
	scale float64
	start float64 // of the first event; 0 = none yet

	count   float64 // requests, decayed with countDecay, as of last
	last    float64 // time of the last request; 0 = none yet
	total   uint32  // requests, modulo 2^32
	busy    int     // bucket of count at the last request
	sampled float64 // time of the last sample of the table

	solves solves
	table  *table // nil unless Adaptive: a fixed depth needs no forecast
}

// thought is what the last forecasts were made of.
type thought struct {
	looks [horizons]outlook
	soon  ahead // for wish.Lead
}

// NewMind makes a Mind that has seen nothing.
func NewMind(k Knobs) *Mind {
	m := &Mind{knowledge: &knowledge{scale: 1}, knobs: k}
	m.solves.fails = failPrior
	if k.Adaptive {
		m.table, m.thought = newTable(), new(thought)
	}
	m.credit = m.creditStart()
	m.learned()
	return m
}

// follower makes a Mind with other knobs that knows what m knows, now and later. It
// has a credit of its own.
func (m *Mind) follower(k Knobs) *Mind {
	f := &Mind{knowledge: m.knowledge, follows: true, knobs: k}
	f.credit = f.creditStart()
	return f
}

// Change gives it other knobs, with the same Adaptive and Usable: another kind or
// life of tokens is another Mind, made by Restore.
func (m *Mind) Change(k Knobs) {
	m.knobs = k
	m.credit = min(m.credit, m.creditMost())
	m.learned()
	m.wished = 0
}

// Request notes that somebody asked for a token, and whether one was ready.
func (m *Mind) Request(at time.Time, hit bool) {
	m.advance(at)
	if !m.follows {
		m.asked()
	}
	m.earn(hit)
	m.stir()
}

// asked learns from a request that comes now.
func (m *Mind) asked() {
	if m.table != nil && m.last > 0 {
		m.table.gaps.add(m.busy, (m.now-m.last)/m.scale)
	}
	m.count = m.countNow() + 1
	m.last = m.now
	m.total++
	m.busy = bucket(busyEdges[:], m.count)
	// Every sample waits for the last horizon, and only so many can.
	if m.table != nil && m.now-m.sampled >= m.scale*max(requestStep, m.ends()[horizons-1]/pendings) {
		m.sample(m.now)
	}
}

// Placed notes an order.
func (m *Mind) Placed(at time.Time) {
	m.advance(at)
	m.placed = m.now
	m.slots.placed(m.now, manySlots*m.solves.quantile(0.5))
}

// Landed notes a token that was ordered lead ago.
func (m *Mind) Landed(at time.Time, lead time.Duration) {
	m.advance(at)
	if !m.follows {
		m.solves.landed(lead)
		m.learned()
	}
	m.stir()
}

// Learn replaces the lead times by those of a list, newest first; what is beyond
// the first 48 is left. It is for an owner whose stock remembers them, to be
// called when they have changed.
func (m *Mind) Learn(at time.Time, leads []time.Duration) {
	m.advance(at)
	m.solves.replace(leads)
	m.learned()
	m.stir()
}

// Failed notes an order that ended without a token.
func (m *Mind) Failed(at time.Time) {
	m.advance(at)
	if !m.follows {
		m.solves.failed()
	}
	m.stir()
}

// Expired notes n tokens that died unused.
func (m *Mind) Expired(at time.Time, n int) {
	m.advance(at)
	m.credit = max(m.credit-m.charged(n), m.creditLowest())
	m.wished = 0
}

// stir has the next wish made anew, unless one event more changes little.
func (m *Mind) stir() {
	if m.wish.Want < slowFrom {
		m.wished = 0
	}
}

// forget has a follower's next wish made anew: it shares its thought with others.
func (m *Mind) forget() {
	if m.follows {
		m.wished = 0
	}
}

// learned looks whether the lead times are far from those that the time
// constants are for. If so, these are stretched, and the table, whose times they
// are, begins anew.
func (m *Mind) learned() {
	guess := m.knobs.FirstPoll + m.knobs.PollInterval
	m.solves.sort(guess)
	if m.start > 0 && m.solves.n < solvesToWait {
		return // a few among guesses say little
	}
	ideal := m.solves.quantile(0.5) / usualLead
	if ideal <= 0 {
		return
	}
	ideal = min(max(ideal, leastScale), mostScale)
	if far := m.scale / ideal; far <= farFactor && far >= 1/farFactor {
		return
	}
	m.count = min(m.countNow()*ideal/m.scale, mostCount) // so many are in the new time constant
	m.scale = ideal
	if m.table != nil {
		m.table = newTable()
	}
	m.sampled = m.now
	m.wished = 0
}

// ends are the horizons of the table in scaled seconds.
func (m *Mind) ends() [horizons]float64 {
	life := m.knobs.Usable.Seconds() / m.scale
	return [horizons]float64{nearHorizon, midHorizon, min(max(life, lifeLeast), lifeMost) + lifeBeyond}
}

// countNow is the decayed count of requests.
func (m *Mind) countNow() float64 {
	if m.last == 0 {
		return 0
	}
	return m.decayed(m.count, m.last)
}

// decayed is what is left now of a count as of then.
func (m *Mind) decayed(count, then float64) float64 {
	return count * math.Exp(-(m.now-then)/(countDecay*m.scale))
}

// advance brings the table to the time: samples are noted while nobody asks, and
// what came of earlier ones is written down. A wake-up that came late, or a
// hundred too many, change nothing: the samples are at the same moments.
func (m *Mind) advance(at time.Time) {
	m.now = max(m.now, unixSeconds(at), m.last)
	if m.follows {
		return
	}
	if m.start == 0 {
		m.start = m.now
	}
	if m.last == 0 || m.table == nil {
		return
	}
	ends := m.ends()
	// In the last bucket of silence there is nothing to be learned that is not
	// known, and a gap of a month must not take a month's samples to catch up.
	until := min(m.now, m.last+silenceEdges[silences-2]*m.scale)
	for {
		step := quietStep
		if m.sampled-m.last > lateAfter*m.scale {
			step = lateStep
		}
		next := m.sampled + step*m.scale
		if next > until {
			break
		}
		m.table.settle(next, m.total, &ends, m.scale)
		m.sample(next)
	}
	m.table.settle(m.now, m.total, &ends, m.scale)
}

// sample notes the situation at a moment that is not before the last request.
func (m *Mind) sample(at float64) {
	silence := (at - m.last) / m.scale
	shape := 2*m.count*math.Exp(-silence/countDecay) + fallbackPrior
	m.table.note(at, shape, m.total, situation(silence, m.busy))
	m.sampled = at
}

func unixSeconds(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }

// inSeconds is a number of seconds as a duration, Never for too many.
func inSeconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return Never
	}
	return time.Duration(s * float64(time.Second))
}
