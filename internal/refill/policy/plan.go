package policy

import "time"

const (
	// cheaper is how much more an added token is worth than theory says: just in
	// time renewal saves many that would expire. Calibrated.
	cheaper = 2.0
	// A want below slowFrom is decided anew at each event; for one above it, where
	// a request more or less is nothing, planStep scaled seconds are soon enough.
	// idleStep is that of a target that wants nothing and of which nobody does.
	slowFrom = 12
	planStep = 1.0
	idleStep = 10.0
	// In a long silence it looks every likelyStep once a request within the life of a
	// new token is likely, to order in time.
	likelyStep = 2.0
	likely     = 0.05
	// floorLead is the quantile of the lead time that `min` and warm windows are
	// renewed by at least.
	floorLead = 0.8
	// solvesToLearn is how many lead times make a median worth believing.
	solvesToLearn = 3
	// solvesToWait is how many of them say how soon a solve can be.
	solvesToWait = 8
	// windowLead is the quantile of the lead time that a warm window is ordered for
	// before it begins.
	windowLead = 0.95
)

// Plan says what the policy wants now. warm tokens are kept ready whatever the
// demand, for a warm window; 0 = there is none.
func (s *State) Plan(at time.Time, warm int) Plan {
	s.advance(at)
	if s.planned > 0 && s.warm == warm && s.now-s.planned < s.learned.scale*planStep {
		return s.plan
	}
	s.accrue()
	s.warm, s.planned = warm, s.now
	if s.params.Adaptive {
		s.plan = s.adaptivePlan()
	} else {
		s.plan = s.fixedPlan()
	}
	s.plan.Warm = warm
	if s.learned.solves.n >= solvesToWait {
		s.plan.Shortest = inSeconds(s.learned.solves.quantile(0))
	}
	return s.plan
}

// fixedPlan is that of `refill: fixed`.
func (s *State) fixedPlan() Plan {
	allowed := s.limits()
	want, limit := allowed.clamp(max(s.params.Depth, s.warm))
	p := Plan{Want: want, Most: want, Limit: limit, Lead: s.params.Lead(), Look: Never}
	if s.learned.solves.n >= solvesToLearn {
		p.Lead = max(0, min(inSeconds(s.learned.solves.quantile(0.5)), s.params.Usable/2))
	}
	if s.params.IdleAfter > 0 && !allowed.idle {
		p.Look = max(0, s.params.IdleAfter-inSeconds(s.learned.silence(s.now)))
	}
	return p
}

// adaptivePlan is that of `refill: adaptive`.
func (s *State) adaptivePlan() Plan {
	var v expectation
	s.learned.foresee(&v, s.now, s.workspace)
	scale, allowed := s.learned.scale, s.limits()
	p := Plan{Most: allowed.held(), Forecast: v.expected(), Look: inSeconds(planStep * scale)}
	p.Want, p.Limit = allowed.clamp(v.enoughInTime(&s.params, allowed.most, s.slots.perToken(scale, s.learned.solves.fails)))
	p.Risk = v.risk(p.Want)
	// A token that dies within the lead time is replaced as far as it will be
	// used before; never merely because it dies.
	fractile := 0.5
	if allowed.floor > 0 {
		fractile = floorLead
	}
	lead := min(s.learned.solves.quantile(fractile), s.params.Usable.Seconds())
	v.prepare(&s.workspace.soon, lead/scale)
	p.Lead = inSeconds(lead)
	if p.Want == 0 && (s.learned.last == 0 || s.learned.silence(s.now) > lateAfter*scale) {
		step := idleStep
		if v.use.ge(1) > likely {
			step = likelyStep
		}
		p.Look = inSeconds(step * scale)
	}
	return p
}

// warmLead is how long before a warm window begins its tokens are ordered, so that
// nearly all of them are there when it does: more than most solves take, but not
// above half the usable life, or they would be old.
func (s *State) warmLead() time.Duration {
	return min(inSeconds(s.learned.solves.quantile(windowLead)), s.params.Usable/2)
}

// Worth is what one more token is worth with n ahead of it, at the latest time
// that the State was told: how likely it is needed before a later order could
// arrive, and used at all, times MaxWaste.
func (s *State) Worth(n int) float64 {
	var v expectation
	s.learned.foresee(&v, s.now, s.workspace)
	s.planned = 0 // the forecasts that the last plan was made with are gone
	return s.params.MaxWaste * v.risk(n) * v.use.ge(n+1)
}
