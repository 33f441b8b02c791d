package policy

import (
	"math"
	"time"
)

// State is what is known about one target, and the memory of its policy: a value
// without clock, lock or I/O. Every method takes the time; one before the latest
// counts as that. Its owner calls it from one goroutine at a time. Where a
// comment says scaled seconds, a second is scale seconds of the clock.
type State struct {
	learned *knowledge
	follows bool // it is what another State has learned: this one adds nothing to it

	params Params
	now    float64 // the latest time, in unix seconds as all times here
	placed float64 // time of the last order; 0 = none yet
	credit credit
	slots  slots

	// Of the last plan; not saved.
	plan      Plan
	planned   float64    // when; 0 = it is to be made anew
	warm      int        // for which
	workspace *workspace // nil unless Adaptive
}

// workspace is what the last forecasts were made of.
type workspace struct {
	above [horizons]exceedance
	soon  forecast // for plan.Lead
}

// NewState makes a State that has seen nothing.
func NewState(p Params) *State {
	s := &State{learned: newKnowledge(&p), params: p, credit: newCredit(p.MaxWaste)}
	if p.Adaptive {
		s.workspace = new(workspace)
	}
	s.refit()
	return s
}

// follower makes a State with other params that knows what s knows, now and later. It
// has a credit of its own.
func (s *State) follower(p Params) *State {
	return &State{learned: s.learned, follows: true, params: p, credit: newCredit(p.MaxWaste)}
}

// Change gives it other params, with the same Adaptive and Usable: another kind or
// life of tokens is another State, made by Restore.
func (s *State) Change(p Params) {
	s.params = p
	s.credit.reprice(p.MaxWaste)
	s.refit()
	s.planned = 0
}

// Request notes that somebody asked for a token, and whether one was ready.
func (s *State) Request(at time.Time, hit bool) {
	s.advance(at)
	if !s.follows {
		s.learned.asked(s.now)
	}
	s.credit.earn(s.now, s.learned.scale, hit)
	s.outdate()
}

// Placed notes an order.
func (s *State) Placed(at time.Time) {
	s.advance(at)
	s.placed = s.now
	s.slots.placed(s.now, manySlots*s.learned.solves.quantile(0.5))
}

// Landed notes a token that was ordered lead ago.
func (s *State) Landed(at time.Time, lead time.Duration) {
	s.advance(at)
	if !s.follows {
		s.learned.solves.landed(lead)
		s.refit()
	}
	s.outdate()
}

// Learn replaces the lead times by those of a list, newest first; what is beyond
// the first 48 is left. It is for an owner whose stock remembers them, to be
// called when they have changed.
func (s *State) Learn(at time.Time, leads []time.Duration) {
	s.advance(at)
	s.learned.solves.replace(leads)
	s.refit()
	s.outdate()
}

// Failed notes an order that ended without a token.
func (s *State) Failed(at time.Time) {
	s.advance(at)
	if !s.follows {
		s.learned.solves.failed()
	}
	s.outdate()
}

// Expired notes n tokens that died unused.
func (s *State) Expired(at time.Time, n int) {
	s.advance(at)
	s.accrue()
	s.credit.charge(n, s.params.most(s.warm))
	s.planned = 0
}

// outdate has the next plan made anew, unless one event more changes little.
func (s *State) outdate() {
	if s.plan.Want < slowFrom {
		s.planned = 0
	}
}

// outdateShared has a follower's next plan made anew: it shares its workspace with others.
func (s *State) outdateShared() {
	if s.follows {
		s.planned = 0
	}
}

// accrue brings up to date what the floor may let expire; it must have been as it is now
// since the last time.
func (s *State) accrue() {
	// A token of the floor is replaced up to a lead time before it dies.
	life := s.params.Usable.Seconds()
	cycle := max(life-s.learned.solves.quantile(floorLead), life/2)
	s.credit.accrue(s.now, s.params.floor(s.warm), cycle)
}

// refit has everything fit the lead times as they are now.
func (s *State) refit() {
	if s.learned.fit(s.now, s.params.FirstPoll+s.params.PollInterval) {
		s.planned = 0
	}
}

// advance brings what was learned to the time.
func (s *State) advance(at time.Time) {
	s.now = max(s.now, unixSeconds(at), s.learned.last)
	if !s.follows {
		s.learned.catchUp(s.now)
	}
}

func unixSeconds(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }

// inSeconds is a number of seconds as a duration, Never for too many.
func inSeconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return Never
	}
	return time.Duration(s * float64(time.Second))
}
