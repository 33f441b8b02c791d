package refill

import (
	"math"
	"time"

	"poold/internal/pool"
)

const (
	// cheaper is how much more an added token is worth than theory says: just in
	// time renewal saves many that would expire. Calibrated.
	cheaper = 2.0
	// A want below slowFrom is decided anew at each event; for one above it, where
	// a request more or less is nothing, wishStep scaled seconds are soon enough.
	// idleStep is that of a target that wants nothing and of which nobody does.
	slowFrom = 12
	wishStep = 1.0
	idleStep = 10.0
	// In a long silence it looks every likelyStep once a request within the life of a
	// new token is likely, to order in time.
	likelyStep = 2.0
	likely     = 0.05
	// floorLead is the quantile of the lead time that `min` and warm windows are
	// renewed by at least.
	floorLead = 0.8
	// warmLead is the quantile of the lead time that a warm window is ordered for
	// before it begins.
	warmLead = 0.95
)

// Wish is what the policy wants of a stock that it has not looked at yet.
type Wish struct {
	Want int           // tokens wanted ready or on their way
	Most int           // tokens + orders - callers waiting never go beyond
	Lead time.Duration // a token that does not outlive it is on its way out; to look at the stock with
	// Shortest is the shortest lead time of late; 0 where too few are known.
	Shortest time.Duration
	Forecast float64       // requests expected within one lead time
	Risk     float64       // that a request finds nothing with Want tokens ahead of it
	Rail     string        // what kept Want below what the forecast asks; RailNone
	Look     time.Duration // until it is to be made anew if nothing happens
}

// Wish says what the policy wants now. warm tokens are kept ready whatever the
// demand, for a warm window; 0 = there is none.
func (m *Mind) Wish(at time.Time, warm int) Wish {
	m.advance(at)
	if m.wished > 0 && m.warm == warm && m.now-m.wished < m.scale*wishStep {
		return m.wish
	}
	m.accrue()
	m.warm, m.wished = warm, m.now
	if m.knobs.Adaptive {
		m.wish = m.adaptiveWish()
	} else {
		m.wish = m.fixedWish()
	}
	if m.solves.n >= solvesToWait {
		m.wish.Shortest = inSeconds(m.solves.quantile(0))
	}
	return m.wish
}

// fixedWish is that of `refill: fixed`.
func (m *Mind) fixedWish() Wish {
	want, rail := m.rails(max(m.knobs.Depth, m.warm))
	w := Wish{Want: want, Most: want, Rail: rail, Look: Never}
	w.Lead = Lead(m.solves.known(), m.knobs.FirstPoll, m.knobs.PollInterval, m.knobs.Usable)
	if m.knobs.IdleAfter > 0 && !m.idle() {
		w.Look = max(0, m.knobs.IdleAfter-inSeconds(m.silence()))
	}
	return w
}

// slotGap is how long it takes, in scaled seconds, to have one more token solved
// where slots are few.
func (m *Mind) slotGap() float64 {
	const leastSolved = 0.1
	return m.slots.gap / m.scale / max(leastSolved, 1-m.solves.fails)
}

// adaptiveWish is that of `refill: adaptive`.
func (m *Mind) adaptiveWish() Wish {
	var v view
	m.foresee(&v)
	w := Wish{Most: m.held(), Forecast: v.expected(), Look: inSeconds(wishStep * m.scale)}
	w.Want, w.Rail = m.rails(v.enoughInTime(&m.knobs, m.most(), m.slotGap()))
	w.Risk = v.risk(w.Want)
	// A token that dies within the lead time is replaced as far as it will be
	// used before; never merely because it dies.
	fractile := 0.5
	if m.floor() > 0 {
		fractile = floorLead
	}
	lead := min(m.solves.quantile(fractile), m.knobs.Usable.Seconds())
	v.prepare(&m.thought.soon, lead/m.scale)
	w.Lead = inSeconds(lead)
	if w.Want == 0 && (m.last == 0 || m.silence() > lateAfter*m.scale) {
		step := idleStep
		if v.use.ge(1) > likely {
			step = likelyStep
		}
		w.Look = inSeconds(step * m.scale)
	}
	return w
}

// Decide says what to order, given the stock as looked at with the wish's Lead.
// Only its counts and times are read. For `refill: fixed` it is the depth
// sentence's arithmetic; Leads are those of the Mind.
func (m *Mind) Decide(at time.Time, w Wish, s *pool.Stock) Decision {
	m.advance(at)
	d := Decision{Want: w.Want, Most: w.Most, Lead: w.Lead, Shortest: w.Shortest, Look: w.Look,
		Forecast: w.Forecast, Risk: w.Risk, Rail: w.Rail, Credit: m.spare()}
	if s.Paused {
		d.Want, d.Rail, d.Look = 0, RailPaused, Never
		return d
	}
	if m.knobs.Adaptive {
		d.Order = m.missing(w, s)
		if room := max(0, w.Most+s.Waiting-s.Fresh-s.Orders); d.Order > room {
			d.Order = room
			if short(w.Want, s) > room { // not only in case some orders fail
				d.Rail = m.full(w.Most)
			}
		}
		if s.NextExpiry > 0 {
			d.Look = min(d.Look, s.NextExpiry)
		}
	} else {
		d.Order = short(w.Want, s)
	}
	d.Look = min(d.Look, nextChange(s))
	d = m.probe(d)
	m.slots.want(m.now, d.Order)
	return d
}

// Ahead is how long before a warm window begins its tokens are ordered, so that
// nearly all of them are there when it does: more than most solves take, but not
// above half the usable life, or they would be old.
func (m *Mind) Ahead() time.Duration {
	return min(inSeconds(m.solves.quantile(warmLead)), m.knobs.Usable/2)
}

// Worth is what one more token is worth with n ahead of it, at the latest time
// that the Mind was told: how likely it is needed before a later order could
// arrive, and used at all, times MaxWaste.
func (m *Mind) Worth(n int) float64 {
	var v view
	m.foresee(&v)
	m.wished = 0 // the outlooks that the last wish was made with are gone
	return m.knobs.MaxWaste * v.risk(n) * v.use.ge(n+1)
}

// missing is how many tokens lack, in expectation: one that is on its way out
// counts as likely as it is used before, an order as likely as it lands.
func (m *Mind) missing(w Wish, s *pool.Stock) int {
	effective := float64(s.Outliving) + m.thought.soon.served(s.Fresh-s.Outliving) +
		(1-m.solves.fails)*float64(s.Orders) - float64(s.Waiting)
	return max(0, int(math.Floor(float64(w.Want)-effective+0.5)))
}
