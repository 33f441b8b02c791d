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
	// floorLead is the quantile of the lead time that `min` and warm windows are
	// renewed by at least.
	floorLead = 0.8
	// warmLead is the quantile of the lead time that a warm window is ordered for
	// before it begins.
	warmLead = 0.95
	// An order older than staleTimes the staleLead quantile is not counted on.
	staleTimes = 2.0
	staleLead  = 0.95
)

// Wish is what the policy wants of a stock that it has not looked at yet.
type Wish struct {
	Want int           // tokens wanted ready or on their way
	Most int           // tokens + orders - callers waiting never go beyond
	Lead time.Duration // a token that does not outlive it is on its way out; to look at the stock with
	// Shortest is the shortest lead time of late; 0 where too few are known.
	Shortest time.Duration
	Stale    time.Duration // an order older than this is not counted on
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

// adaptiveWish is that of `refill: adaptive`.
func (m *Mind) adaptiveWish() Wish {
	var v view
	m.foresee(&v)
	w := Wish{Most: m.most(), Forecast: v.expected(), Look: inSeconds(wishStep * m.scale)}
	w.Want, w.Rail = m.rails(v.enough(&m.knobs, m.solves.fails, w.Most))
	w.Risk = v.risk(w.Want, m.solves.fails)
	// A token is replaced before it dies, as long before as a miss is dear and a
	// token cheap; never merely because it dies.
	dear := v.rate * v.life * m.knobs.MaxWaste
	if w.Want > 1 {
		dear *= cheaper * v.risk(w.Want-1, m.solves.fails)
	}
	fractile := dear / (1 + dear)
	if m.floor() > 0 {
		fractile = max(fractile, floorLead)
	}
	lead := min(m.solves.quantile(fractile), m.knobs.Usable.Seconds())
	v.prepare(&m.thought.soon, lead/m.scale)
	w.Lead = inSeconds(lead)
	w.Stale = inSeconds(staleTimes * m.solves.quantile(staleLead))
	if w.Want == 0 && (m.last == 0 || m.silence() > lateAfter*m.scale) {
		w.Look = inSeconds(idleStep * m.scale)
	}
	return w
}

// Decide says what to order, given the stock as looked at with the wish's Lead.
// Only its counts, times and OrderAges are read. For `refill: fixed` it is the depth
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
				d.Rail = RailDepth
			}
		}
		if s.NextExpiry > 0 {
			d.Look = min(d.Look, s.NextExpiry)
		}
	} else {
		d.Order = short(w.Want, s)
	}
	d.Look = min(d.Look, nextChange(s))
	return m.probe(d)
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
	return m.knobs.MaxWaste * v.risk(n, m.solves.fails) * v.use.ge(n+1)
}

// missing is how many tokens lack, in expectation: one that is on its way out
// counts as likely as it is used before, an order as likely as it lands.
func (m *Mind) missing(w Wish, s *pool.Stock) int {
	orders := s.Orders
	for _, age := range s.OrderAges {
		if age <= w.Stale && age.Seconds() <= m.now-m.doubt {
			break // they are sorted, oldest first
		}
		orders--
	}
	effective := float64(s.Outliving) + m.thought.soon.served(s.Fresh-s.Outliving) +
		(1-m.solves.fails)*float64(max(0, orders)) - float64(s.Waiting)
	return max(0, int(math.Floor(float64(w.Want)-effective+0.5)))
}
