package policy

import (
	"cmp"
	"math"
	"time"
)

// Never is the Look of a decision that only an event can change.
const Never = time.Duration(math.MaxInt64)

// Plan is what the policy wants, before it sees the stock.
type Plan struct {
	Want int           // tokens wanted ready or ordered
	Most int           // limit of tokens + orders - pending callers
	Warm int           // tokens of Want that warm windows want ready
	Lead time.Duration // lead time to look at the stock with
	// Shortest is the shortest of the recent lead times; 0 if too few are known.
	Shortest time.Duration
	// Look is how long the plan holds without an event.
	Look time.Duration

	// Of an adaptive target: the requests expected within one lead time, the probability that one
	// finds nothing with Want tokens ahead, and the limit on Want or the orders.
	Forecast, Risk float64
	Limit          string
}

// Decision is what to do about a stock.
type Decision struct {
	Plan
	Order  int     // how many to order now
	Credit float64 // tokens that may still expire before an adaptive target keeps only its `min`
	// Failing: the last FailuresInARow solves all failed, at any replica.
	Failing bool
}

// Decide returns what to order, given the stock as looked at with the plan's Lead.
func (s *State) Decide(at time.Time, p Plan, stock *Stock) Decision {
	s.advance(at)
	d := Decision{Plan: p, Credit: s.Credit(), Failing: s.learned.solves.streak >= FailuresInARow}
	if stock.Paused {
		d.Want, d.Limit, d.Look = 0, LimitPaused, cmp.Or(stock.Resumes, Never)
		return d
	}
	if d.Order = short(p.Want, stock); s.params.Adaptive {
		missing, room := s.missing(p, stock), max(0, p.Most+stock.Waiting-stock.Fresh-stock.Orders)
		if missing > room && d.Order > room { // the limit applies even if all orders land
			d.Limit = LimitDepth
			if p.Most < s.params.most(s.warm) {
				d.Limit = LimitCredit
			}
		}
		d.Order = min(missing, room)
		if stock.NextExpiry > 0 {
			d.Look = min(d.Look, stock.NextExpiry)
		}
	}
	// Earlier only an event can change the decision.
	if stock.NextLook >= 0 {
		d.Look = min(d.Look, stock.NextLook)
	}
	if stock.NextEnd > 0 {
		d.Look = min(d.Look, stock.NextEnd)
	}
	s.probe(&d)
	s.slots.want(s.now, d.Order)
	return d
}

// short returns how many tokens are missing at a fixed depth. As docs/configuration.md says, an order
// is placed while (fresh tokens that outlive the lead time) + (orders) - (callers waiting) < depth.
func short(depth int, s *Stock) int {
	return max(0, depth-(s.Outliving+s.Orders-s.Waiting))
}

// missing returns the expected number of missing tokens. A token that expires within the lead time
// counts with the probability that it is used before, an order with the probability that it lands.
func (s *State) missing(p Plan, stock *Stock) int {
	effective := float64(stock.Outliving) + s.workspace.soon.served(stock.Fresh-stock.Outliving) +
		(1-s.learned.solves.fails)*float64(stock.Orders) - float64(stock.Waiting)
	return max(0, int(math.Floor(float64(p.Want)-effective+0.5)))
}

// Credit returns how many tokens may still expire before an adaptive target keeps only its `min`; 0
// for a fixed one.
func (s *State) Credit() float64 {
	if !s.params.Adaptive {
		return 0
	}
	return s.credit.left
}

// probe limits a target whose last orders all failed to one order per ProbeEvery, until one succeeds.
func (s *State) probe(d *Decision) {
	if s.learned.solves.streak < FailuresInARow || d.Order == 0 {
		return
	}
	order, next := 1, ProbeEvery
	if left := ProbeEvery - inSeconds(s.now-s.placed); left > 0 {
		order, next = 0, left
	}
	if order < d.Order {
		d.Order, d.Limit = order, LimitProbe
	}
	d.Look = min(d.Look, next)
}
