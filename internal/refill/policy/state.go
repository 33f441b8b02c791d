package policy

import (
	"math"
	"time"
)

// State is the knowledge about one target, and the memory of its policy. It has no clock, no lock and
// no I/O. Every method takes the time; a time before the latest one counts as the latest. One
// goroutine at a time uses it.
type State struct {
	learned *knowledge
	follows bool // learned belongs to another State; this one only reads it

	params Params
	now    float64 // the latest time, in unix seconds as all times here
	placed float64 // time of the last order; 0 = none yet
	credit credit
	slots  slots

	// Of the last plan; not saved.
	plan      Plan
	planned   float64    // when; 0 = the plan is stale
	warm      int        // the warm tokens that it was made for
	workspace *workspace // nil unless Adaptive
}

// workspace holds the forecasts of the last plan.
type workspace struct {
	above [horizons]exceedance
	soon  forecast // for plan.Lead
}

// NewState returns a State without learned state.
func NewState(p Params) *State {
	s := newState(p, newKnowledge(&p))
	s.refit()
	return s
}

func newState(p Params, learned *knowledge) *State {
	s := &State{learned: learned, params: p, credit: newCredit(p.MaxWaste)}
	if p.Adaptive {
		s.workspace = new(workspace)
	}
	return s
}

// follower returns a State with other params that shares the learned state of s, now and later. It has
// a separate credit.
func (s *State) follower(p Params) *State {
	f := newState(p, s.learned)
	f.follows = true
	return f
}

// Change sets other params, which must have the same Adaptive and Usable. For other values of these,
// make a new State with Restore.
func (s *State) Change(p Params) {
	s.params = p
	s.credit.reprice(p.MaxWaste)
	s.refit()
	s.planned = 0
}

// Request adds a request, and whether a token was ready for it.
func (s *State) Request(at time.Time, hit bool) {
	s.advance(at)
	if !s.follows {
		s.learned.asked(s.now)
	}
	s.credit.earn(s.now, s.learned.scale, hit)
	s.outdate()
}

// Placed adds an order.
func (s *State) Placed(at time.Time) {
	s.advance(at)
	s.placed = s.now
	s.slots.placed(s.now, manySlots*s.learned.solves.quantile(0.5))
}

// Landed adds a token that was ordered lead ago.
func (s *State) Landed(at time.Time, lead time.Duration) {
	s.advance(at)
	if !s.follows {
		s.learned.solves.landed(lead)
		s.refit()
	}
	s.outdate()
}

// Learn replaces the lead times by the first 48 of a list, newest first. The caller calls it when the
// list in the stock has changed.
func (s *State) Learn(at time.Time, leads []time.Duration) {
	s.advance(at)
	s.learned.solves.replace(leads)
	s.refit()
	s.outdate()
}

// Failed adds an order that ended without a token.
func (s *State) Failed(at time.Time) {
	s.advance(at)
	if !s.follows {
		s.learned.solves.failed()
	}
	s.outdate()
}

// Expired adds n tokens that expired unused.
func (s *State) Expired(at time.Time, n int) {
	s.advance(at)
	s.accrue()
	s.credit.charge(n, s.params.most(s.warm))
	s.planned = 0
}

// outdate makes the plan stale, unless it wants many tokens: then one event changes little.
func (s *State) outdate() {
	if s.plan.Want < slowFrom {
		s.planned = 0
	}
}

// accrue updates the free expiries of the floor, which must not have changed since the last call.
func (s *State) accrue() {
	// A token of the floor is replaced up to a lead time before it expires.
	life := s.params.Usable.Seconds()
	cycle := max(life-s.learned.solves.quantile(floorLead), life/2)
	s.credit.accrue(s.now, s.params.floor(s.warm), cycle)
}

// refit adapts the learned state to the present lead times.
func (s *State) refit() {
	if s.learned.fit(s.now, s.params.FirstPoll+s.params.PollInterval) {
		s.planned = 0
	}
}

// advance brings the learned state up to the time.
func (s *State) advance(at time.Time) {
	s.now = max(s.now, unixSeconds(at), s.learned.last)
	if !s.follows {
		s.learned.catchUp(s.now)
	}
}

func unixSeconds(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }

// inSeconds converts seconds to a duration; Never if they are too many.
func inSeconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return Never
	}
	return time.Duration(s * float64(time.Second))
}
