package policy

import (
	"math"
	"time"
)

// Params is what the file says about buying for one target.
type Params struct {
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

// remembers reports whether the demand so far matters to the policy.
func (p Params) remembers() bool { return p.Adaptive || p.IdleAfter > 0 }

// Lead is the time from submit to token to reckon with while none is known: never
// above half the usable life, since a token that is ordered earlier than that
// displaces one that is still good.
func (p Params) Lead() time.Duration {
	return max(0, min(p.FirstPoll+p.PollInterval, p.Usable/2))
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

// State is what is known about one target, and the memory of its policy: a value
// without clock, lock or I/O. Every method takes the time; one before the latest
// counts as that. Its owner calls it from one goroutine at a time. Where a
// comment says scaled seconds, a second is scale seconds of the clock.
type State struct {
	*knowledge
	follows bool // the knowledge is another State's: this one adds nothing to it

	params Params
	now    float64 // the latest time, in unix seconds as all times here
	placed float64 // time of the last order; 0 = none yet
	credit float64 // tokens that may still be wasted
	hits   float64 // tokens handed out at once, decayed with countDecay, as of hit; not saved
	hit    float64
	slots  slots

	// Of the last plan; not saved.
	plan      Plan
	planned   float64    // when; 0 = it is to be made anew
	warm      int        // for which
	workspace *workspace // nil unless Adaptive

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

// workspace is what the last forecasts were made of.
type workspace struct {
	above [horizons]exceedance
	soon  forecast // for plan.Lead
}

// NewState makes a State that has seen nothing.
func NewState(k Params) *State {
	m := &State{knowledge: &knowledge{scale: 1}, params: k}
	m.solves.fails = failPrior
	if k.Adaptive {
		m.table, m.workspace = new(table), new(workspace)
	}
	m.credit = m.creditStart()
	m.learned()
	return m
}

// follower makes a State with other params that knows what m knows, now and later. It
// has a credit of its own.
func (m *State) follower(k Params) *State {
	f := &State{knowledge: m.knowledge, follows: true, params: k}
	f.credit = f.creditStart()
	return f
}

// Change gives it other params, with the same Adaptive and Usable: another kind or
// life of tokens is another State, made by Restore.
func (m *State) Change(k Params) {
	m.params = k
	m.credit = min(m.credit, m.creditMost())
	m.learned()
	m.planned = 0
}

// Request notes that somebody asked for a token, and whether one was ready.
func (m *State) Request(at time.Time, hit bool) {
	m.advance(at)
	if !m.follows {
		m.asked()
	}
	m.earn(hit)
	m.outdate()
}

// asked learns from a request that comes now.
func (m *State) asked() {
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
func (m *State) Placed(at time.Time) {
	m.advance(at)
	m.placed = m.now
	m.slots.placed(m.now, manySlots*m.solves.quantile(0.5))
}

// Landed notes a token that was ordered lead ago.
func (m *State) Landed(at time.Time, lead time.Duration) {
	m.advance(at)
	if !m.follows {
		m.solves.landed(lead)
		m.learned()
	}
	m.outdate()
}

// Learn replaces the lead times by those of a list, newest first; what is beyond
// the first 48 is left. It is for an owner whose stock remembers them, to be
// called when they have changed.
func (m *State) Learn(at time.Time, leads []time.Duration) {
	m.advance(at)
	m.solves.replace(leads)
	m.learned()
	m.outdate()
}

// Failed notes an order that ended without a token.
func (m *State) Failed(at time.Time) {
	m.advance(at)
	if !m.follows {
		m.solves.failed()
	}
	m.outdate()
}

// Expired notes n tokens that died unused.
func (m *State) Expired(at time.Time, n int) {
	m.advance(at)
	m.credit = max(m.credit-m.charged(n), m.creditLowest())
	m.planned = 0
}

// outdate has the next plan made anew, unless one event more changes little.
func (m *State) outdate() {
	if m.plan.Want < slowFrom {
		m.planned = 0
	}
}

// outdateShared has a follower's next plan made anew: it shares its workspace with others.
func (m *State) outdateShared() {
	if m.follows {
		m.planned = 0
	}
}

// learned looks whether the lead times are far from those that the time
// constants are for. If so, these are stretched, and the table, whose times they
// are, begins anew.
func (m *State) learned() {
	guess := m.params.FirstPoll + m.params.PollInterval
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
		m.table = new(table)
	}
	m.sampled = m.now
	m.planned = 0
}

// ends are the horizons of the table in scaled seconds.
func (m *State) ends() [horizons]float64 {
	life := m.params.Usable.Seconds() / m.scale
	return [horizons]float64{nearHorizon, midHorizon, min(max(life, lifeLeast), lifeMost) + lifeBeyond}
}

// countNow is the decayed count of requests.
func (m *State) countNow() float64 {
	if m.last == 0 {
		return 0
	}
	return m.decayed(m.count, m.last)
}

// decayed is what is left now of a count as of then.
func (m *State) decayed(count, then float64) float64 {
	return count * math.Exp(-(m.now-then)/(countDecay*m.scale))
}

// advance brings the table to the time: samples are noted while nobody asks, and
// what came of earlier ones is written down. A wake-up that came late, or a
// hundred too many, change nothing: the samples are at the same moments.
func (m *State) advance(at time.Time) {
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
func (m *State) sample(at float64) {
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
