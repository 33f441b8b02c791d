package policy

import (
	"math"
	"time"
)

// Never is the Look of a decision that nothing but a change can overturn.
const Never = time.Duration(math.MaxInt64)

// Plan is what the policy wants of a stock that it has not looked at yet.
type Plan struct {
	Want int           // tokens wanted ready or on their way
	Most int           // tokens + orders - callers waiting never go beyond
	Warm int           // tokens of Want that warm windows want ready
	Lead time.Duration // lead time to look at the stock with
	// Shortest is the shortest lead time of late; 0 where too few are known.
	Shortest time.Duration
	// Look is how long it holds if nothing happens to the stock but the passing of
	// time.
	Look time.Duration

	// Of an adaptive target: the requests that are expected within one lead time, and
	// how likely one finds nothing although Want tokens were ahead of it.
	Forecast, Risk float64
	Limit          string // what kept Want or the orders below what that asks for
}

// Decision is what is to be done about a stock.
type Decision struct {
	Plan
	Order  int     // how many to order now
	Credit float64 // tokens that may still expire before an adaptive target keeps only its `min`
}

// Decide says what to order, given the stock as looked at with the plan's Lead.
func (m *State) Decide(at time.Time, p Plan, s *Stock) Decision {
	m.advance(at)
	d := Decision{Plan: p, Credit: m.Credit()}
	if s.Paused {
		d.Want, d.Limit, d.Look = 0, LimitPaused, Never
		return d
	}
	if m.params.Adaptive {
		d.Order = m.missing(p, s)
		if room := max(0, p.Most+s.Waiting-s.Fresh-s.Orders); d.Order > room {
			d.Order = room
			if short(p.Want, s) > room { // not only in case some orders fail
				d.Limit = m.full(p.Most)
			}
		}
		if s.NextExpiry > 0 {
			d.Look = min(d.Look, s.NextExpiry)
		}
	} else {
		d.Order = short(p.Want, s)
	}
	// Until then only an event changes the sum: a token stops outliving the lead, or
	// an order runs out of time.
	if s.NextLook >= 0 {
		d.Look = min(d.Look, s.NextLook)
	}
	if s.NextEnd > 0 {
		d.Look = min(d.Look, s.NextEnd)
	}
	m.probe(&d)
	m.slots.want(m.now, d.Order)
	return d
}

// short is how many tokens the depth sentence lacks. In the README's words: an
// order is placed while (fresh tokens that outlive the lead time) + (orders) -
// (callers waiting) < depth, so a replacement is ordered a lead time before a token
// leaves the fresh ones, and an order more for each caller that waits.
func short(depth int, s *Stock) int {
	return max(0, depth-(s.Outliving+s.Orders-s.Waiting))
}

// missing is how many tokens lack, in expectation: one that is on its way out
// counts as likely as it is used before, an order as likely as it lands.
func (m *State) missing(p Plan, s *Stock) int {
	effective := float64(s.Outliving) + m.workspace.soon.served(s.Fresh-s.Outliving) +
		(1-m.solves.fails)*float64(s.Orders) - float64(s.Waiting)
	return max(0, int(math.Floor(float64(p.Want)-effective+0.5)))
}
