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
func (m *State) Plan(at time.Time, warm int) Plan {
	m.advance(at)
	if m.planned > 0 && m.warm == warm && m.now-m.planned < m.scale*planStep {
		return m.plan
	}
	m.accrue()
	m.warm, m.planned = warm, m.now
	if m.params.Adaptive {
		m.plan = m.adaptivePlan()
	} else {
		m.plan = m.fixedPlan()
	}
	m.plan.Warm = warm
	if m.solves.n >= solvesToWait {
		m.plan.Shortest = inSeconds(m.solves.quantile(0))
	}
	return m.plan
}

// fixedPlan is that of `refill: fixed`.
func (m *State) fixedPlan() Plan {
	want, limit := m.limits(max(m.params.Depth, m.warm))
	p := Plan{Want: want, Most: want, Limit: limit, Lead: m.params.Lead(), Look: Never}
	if m.solves.n >= solvesToLearn {
		p.Lead = max(0, min(inSeconds(m.solves.quantile(0.5)), m.params.Usable/2))
	}
	if m.params.IdleAfter > 0 && !m.idle() {
		p.Look = max(0, m.params.IdleAfter-inSeconds(m.silence()))
	}
	return p
}

// slotGap is how long it takes, in scaled seconds, to have one more token solved
// where slots are few.
func (m *State) slotGap() float64 {
	const leastSolved = 0.1
	return m.slots.gap / m.scale / max(leastSolved, 1-m.solves.fails)
}

// adaptivePlan is that of `refill: adaptive`.
func (m *State) adaptivePlan() Plan {
	var v expectation
	m.foresee(&v)
	p := Plan{Most: m.held(), Forecast: v.expected(), Look: inSeconds(planStep * m.scale)}
	p.Want, p.Limit = m.limits(v.enoughInTime(&m.params, m.most(), m.slotGap()))
	p.Risk = v.risk(p.Want)
	// A token that dies within the lead time is replaced as far as it will be
	// used before; never merely because it dies.
	fractile := 0.5
	if m.floor() > 0 {
		fractile = floorLead
	}
	lead := min(m.solves.quantile(fractile), m.params.Usable.Seconds())
	v.prepare(&m.workspace.soon, lead/m.scale)
	p.Lead = inSeconds(lead)
	if p.Want == 0 && (m.last == 0 || m.silence() > lateAfter*m.scale) {
		step := idleStep
		if v.use.ge(1) > likely {
			step = likelyStep
		}
		p.Look = inSeconds(step * m.scale)
	}
	return p
}

// warmLead is how long before a warm window begins its tokens are ordered, so that
// nearly all of them are there when it does: more than most solves take, but not
// above half the usable life, or they would be old.
func (m *State) warmLead() time.Duration {
	return min(inSeconds(m.solves.quantile(windowLead)), m.params.Usable/2)
}

// Worth is what one more token is worth with n ahead of it, at the latest time
// that the State was told: how likely it is needed before a later order could
// arrive, and used at all, times MaxWaste.
func (m *State) Worth(n int) float64 {
	var v expectation
	m.foresee(&v)
	m.planned = 0 // the forecasts that the last plan was made with are gone
	return m.params.MaxWaste * v.risk(n) * v.use.ge(n+1)
}
