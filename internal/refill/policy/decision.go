package policy

import (
	"cmp"
	"math"
	"time"
)

// Never is the value of Look if only an event can change the decision.
const Never = time.Duration(math.MaxInt64)

// Plan is what the policy wants before it reads the stock.
type Plan struct {
	Want int           // wanted number of tokens, ready or ordered
	Most int           // limit of (tokens + orders - pending callers)
	Warm int           // part of Want that is for warm windows
	Lead time.Duration // lead time for the look at the stock
	// Shortest is the shortest recent lead time; 0 if too few lead times are known.
	Shortest time.Duration
	// Look is how long the plan is valid without an event.
	Look time.Duration

	// These fields are set only for an adaptive target. Forecast is the expected number of requests
	// within one lead time. Risk is the probability that a request finds no token if Want tokens are
	// ready or ordered. Limit is the rule that limits Want or the orders.
	Forecast, Risk float64
	Limit          string
}

// Decision is how many tokens to order for a stock.
type Decision struct {
	Plan
	Order  int     // number of tokens to order now
	Credit float64 // tokens that may still expire before an adaptive target keeps only `min` tokens
	// Failing reports that the last FailuresInARow solves over all replicas failed.
	Failing bool
}

// Decide returns what to order for a stock that was read with the plan's Lead.
func (s *State) Decide(at time.Time, p Plan, stock *Stock) Decision {
	s.advance(at)
	d := Decision{Plan: p, Credit: s.Credit(), Failing: s.learned.solves.streak >= FailuresInARow}
	if stock.Paused {
		d.Want, d.Limit, d.Look = 0, LimitPaused, cmp.Or(stock.Resumes, Never)
		return d
	}
	if d.Order = missingAtDepth(p.Want, stock); s.params.Adaptive {
		missing, room := s.missing(p, stock), max(0, p.Most+stock.Waiting-stock.Fresh-stock.Orders)
		if missing > room && d.Order > room { // the limit must hold even if all orders land
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
	// Before these times, only an event can change the decision.
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

// missingAtDepth returns how many tokens are missing at a fixed depth. As docs/configuration.md says,
// an order is placed while (fresh tokens that outlive the lead time) + (orders) - (callers waiting) <
// depth.
func missingAtDepth(depth int, s *Stock) int {
	return max(0, depth-(s.Outliving+s.Orders-s.Waiting))
}

// missing returns the expected number of missing tokens. A token that expires within the
// lead time counts in proportion to the probability that it is used before its expiry. An order
// counts in proportion to the probability that it lands.
func (s *State) missing(p Plan, stock *Stock) int {
	effective := float64(stock.Outliving) + s.workspace.soon.served(stock.Fresh-stock.Outliving) +
		(1-s.learned.solves.fails)*float64(stock.Orders) - float64(stock.Waiting)
	return max(0, int(math.Floor(float64(p.Want)-effective+0.5)))
}

// Credit returns how many tokens may still expire before an adaptive target keeps only `min` tokens;
// 0 for a fixed target.
func (s *State) Credit() float64 {
	if !s.params.Adaptive {
		return 0
	}
	return s.credit.left
}

// probe limits the decision to one order per ProbeEvery after FailuresInARow failures in
// a row, until an order succeeds.
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
