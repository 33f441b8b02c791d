package policy

import (
	"math"
	"time"
)

// State is the learned state of one target, with the data of its policy. State has no clock, no lock
// and no I/O. Every method gets the time as an argument. A time before the latest time counts as the
// latest time. A State must be used by one goroutine at a time.
type State struct {
	learned *knowledge

	params Params
	now    float64 // latest time; all times of a State are in Unix seconds
	placed float64 // time of the last order; 0 = no order yet
	credit credit
	slots  slots

	// These fields describe the last plan and are not saved.
	plan      Plan
	planned   float64    // time of the plan; 0 = the plan is stale
	warm      int        // number of warm tokens for which the plan was made
	workspace *workspace // nil unless Adaptive
}

// workspace holds the forecasts of the last plan.
type workspace struct {
	above [horizons]exceedance
	soon  forecast // forecast for plan.Lead
}

// NewState returns a State without any learned data.
func NewState(p Params) *State {
	s := &State{learned: newKnowledge(&p), params: p, credit: newCredit(p.MaxWaste)}
	if p.Adaptive {
		s.workspace = new(workspace)
	}
	s.refit()
	return s
}

// Change replaces the params. Adaptive and Usable must be the same as before. If they change, make a
// new State with Restore.
func (s *State) Change(p Params) {
	s.params = p
	s.credit.reprice(p.MaxWaste)
	s.refit()
	s.planned = 0
}

// Request adds a request. The argument hit is true if a token was ready for the request.
func (s *State) Request(at time.Time, hit bool) {
	s.advance(at)
	s.learned.asked(s.now)
	s.credit.earn(s.now, s.learned.scale, hit)
	s.outdate()
}

// Placed adds an order that was placed.
func (s *State) Placed(at time.Time) {
	s.advance(at)
	s.placed = s.now
	s.slots.placed(s.now, manySlots*s.learned.solves.quantile(0.5))
}

// Landed adds a token whose order had the given lead time.
func (s *State) Landed(at time.Time, lead time.Duration) {
	s.advance(at)
	s.learned.solves.landed(lead)
	s.refit()
	s.outdate()
}

// Learn replaces the lead times by the first 48 of the given list, which begins with the newest.
// Learn must be called when the lead times in the stock have changed.
func (s *State) Learn(at time.Time, leads []time.Duration) {
	s.advance(at)
	s.learned.solves.replace(leads)
	s.refit()
	s.outdate()
}

// Failed adds an order that ended without a token.
func (s *State) Failed(at time.Time) {
	s.advance(at)
	s.learned.solves.failed()
	s.outdate()
}

// Expired adds n tokens that expired unused.
func (s *State) Expired(at time.Time, n int) {
	s.advance(at)
	s.accrue()
	s.credit.charge(n, s.params.most(s.warm))
	s.planned = 0
}

// outdate marks the plan as stale, unless the plan wants so many tokens that one event changes
// little.
func (s *State) outdate() {
	if s.plan.Want < slowFrom {
		s.planned = 0
	}
}

// accrue updates the number of expiries that cost no credit. accrue must be called before the floor
// changes.
func (s *State) accrue() {
	// A token of the floor is replaced up to a lead time before the token expires.
	life := s.params.Usable.Seconds()
	cycle := max(life-s.learned.solves.quantile(floorLead), life/2)
	s.credit.accrue(s.now, s.params.floor(s.warm), cycle)
}

// refit adapts the learned state to the current lead times.
func (s *State) refit() {
	if s.learned.fitScale(s.now, s.params.FirstPoll+s.params.PollInterval) {
		s.planned = 0
	}
}

// advance brings the learned state up to date.
func (s *State) advance(at time.Time) {
	s.now = max(s.now, unixSeconds(at), s.learned.last)
	s.learned.catchUp(s.now)
}

func unixSeconds(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }

// inSeconds converts seconds to a duration. A number that is too large becomes Never.
func inSeconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return Never
	}
	return time.Duration(s * float64(time.Second))
}
