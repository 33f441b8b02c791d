package policy

import (
	"cmp"
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
	// Failing: the last FailuresInARow solves all failed, at whichever replica.
	Failing bool
}

// Decide says what to order, given the stock as looked at with the plan's Lead.
func (s *State) Decide(at time.Time, p Plan, stock *Stock) Decision {
	s.advance(at)
	d := Decision{Plan: p, Credit: s.Credit(), Failing: s.learned.solves.streak >= FailuresInARow}
	if stock.Paused {
		d.Want, d.Limit, d.Look = 0, LimitPaused, cmp.Or(stock.Resumes, Never)
		return d
	}
	if s.params.Adaptive {
		d.Order = s.missing(p, stock)
		if room := max(0, p.Most+stock.Waiting-stock.Fresh-stock.Orders); d.Order > room {
			d.Order = room
			if short(p.Want, stock) > room { // not only in case some orders fail
				d.Limit = s.full(p.Most)
			}
		}
		if stock.NextExpiry > 0 {
			d.Look = min(d.Look, stock.NextExpiry)
		}
	} else {
		d.Order = short(p.Want, stock)
	}
	// Until then only an event changes the sum: a token stops outliving the lead, or
	// an order runs out of time.
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

// short is how many tokens the depth sentence lacks. In the words of docs/configuration.md: an
// order is placed while (fresh tokens that outlive the lead time) + (orders) -
// (callers waiting) < depth, so a replacement is ordered a lead time before a token
// leaves the fresh ones, and an order more for each caller that waits.
func short(depth int, s *Stock) int {
	return max(0, depth-(s.Outliving+s.Orders-s.Waiting))
}

// missing is how many tokens lack, in expectation: one that is on its way out
// counts as likely as it is used before, an order as likely as it lands.
func (s *State) missing(p Plan, stock *Stock) int {
	effective := float64(stock.Outliving) + s.workspace.soon.served(stock.Fresh-stock.Outliving) +
		(1-s.learned.solves.fails)*float64(stock.Orders) - float64(stock.Waiting)
	return max(0, int(math.Floor(float64(p.Want)-effective+0.5)))
}

// Credit is how many tokens may still expire before an adaptive target keeps only its
// `min`; 0 for a fixed one, which has none.
func (s *State) Credit() float64 {
	if !s.params.Adaptive {
		return 0
	}
	return s.credit.left
}

// probe slows a target down whose last orders all failed: one order is placed per
// ProbeEvery, until one succeeds.
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
