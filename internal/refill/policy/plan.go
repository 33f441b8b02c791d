package policy

import "time"

const (
	// The worth of one more token is multiplied by the calibrated factor cheaper. Just-in-time renewal
	// avoids many expiries, so a token is worth more than computed.
	cheaper = 2.0
	// A plan that wants fewer than slowFrom tokens is recomputed at each event. One event changes a
	// greater plan only a little, so a greater plan is recomputed every planStep scaled seconds.
	// In a long silence, a plan is recomputed every idleStep.
	slowFrom = 12
	planStep = 1.0
	idleStep = 10.0
	// In a long silence, a plan is recomputed every likelyStep instead of every idleStep if the
	// probability of a request within the life of a new token exceeds the constant likely.
	likelyStep = 2.0
	likely     = 0.05
	// The tokens for `min` and for warm windows are renewed ahead of their expiry by this quantile
	// of the lead time.
	floorLead = 0.8
	// When the policy knows at least solvesToLearn lead times, it uses their median.
	solvesToLearn = 3
	// When the policy knows at least solvesToWait lead times, it also uses the shortest one and may
	// set a new scale.
	solvesToWait = 8
	// Orders for a warm window start ahead of the window by this quantile of the lead time.
	windowLead = 0.95
)

// Plan returns what the policy wants now. The argument warm is the number of tokens kept for warm
// windows even without demand.
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
	if len(s.learned.solves.leads) >= solvesToWait {
		s.plan.Shortest = inSeconds(s.learned.solves.quantile(0))
	}
	return s.plan
}

func (s *State) fixedPlan() Plan {
	allowed := s.limits()
	want, limit := allowed.clamp(max(s.params.Depth, s.warm))
	p := Plan{Want: want, Most: want, Limit: limit, Lead: s.params.Lead(), Look: Never}
	if len(s.learned.solves.leads) >= solvesToLearn {
		p.Lead = max(0, min(inSeconds(s.learned.solves.quantile(0.5)), s.params.Usable/2))
	}
	if s.params.IdleAfter > 0 && !allowed.idle {
		p.Look = max(0, s.params.IdleAfter-inSeconds(s.learned.silence(s.now)))
	}
	return p
}

func (s *State) adaptivePlan() Plan {
	var v expectation
	s.learned.foresee(&v, s.now, s.workspace)
	scale, allowed := s.learned.scale, s.limits()
	p := Plan{Most: allowed.held(), Forecast: v.expected(), Look: inSeconds(planStep * scale)}
	p.Want, p.Limit = allowed.clamp(v.enoughInTime(&s.params, allowed.most, s.slots.perToken(scale, s.learned.solves.fails)))
	p.Risk = v.risk(p.Want)
	// A token that expires within the lead time is replaced in proportion to the probability that it
	// is used before its expiry.
	fractile := 0.5
	if allowed.floor > 0 {
		fractile = floorLead
	}
	lead := min(s.learned.solves.quantile(fractile), s.params.Usable.Seconds())
	v.prepare(&s.workspace.soon, lead/scale)
	p.Lead = inSeconds(lead)
	switch {
	case p.Want > 0:
	case s.learned.last == 0 && p.Limit == LimitNone:
		p.Look = Never // without a first request, the forecast does not change
	case s.learned.last == 0 || s.learned.silence(s.now) > lateAfter*scale:
		step := idleStep
		if v.use.ge(1) > likely {
			step = likelyStep
		}
		p.Look = inSeconds(step * scale)
	}
	return p
}

// warmLead returns how long before a warm window its tokens are ordered, so that nearly all of them
// land before the window begins. The result is at most half the usable life, so that the tokens are
// not old when the window begins.
func (s *State) warmLead() time.Duration {
	return min(inSeconds(s.learned.solves.quantile(windowLead)), s.params.Usable/2)
}

// Worth returns the worth of one more token if n tokens are ready or ordered: P(needed before a later
// order could land) x P(used) x MaxWaste.
func (s *State) Worth(n int) float64 {
	var v expectation
	s.learned.foresee(&v, s.now, s.workspace)
	s.planned = 0 // foresee has overwritten the workspace
	return s.params.MaxWaste * v.risk(n) * v.use.ge(n+1)
}

// Lasts returns how long n tokens last at the request rate of the last minutes; at most the usable
// life of a token.
func (s *State) Lasts(n int) time.Duration {
	k := s.learned
	rate := (2*k.countAt(s.now) + fallbackPrior) / (fallbackWindow * k.scale)
	return min(inSeconds(float64(n)/rate), s.params.Usable)
}
