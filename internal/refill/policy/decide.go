package policy

import (
	"cmp"
	"math"
	"time"
)

// Decision is what the policy wants for a target.
type Decision struct {
	Want  int           // wanted number of tokens, ready or ordered
	Order int           // number of tokens to order now
	Warm  int           // part of Want that is for warm windows
	Lead  time.Duration // lead time with which the stock was counted
	Next  time.Duration // time until the next decision if nothing changes
	Limit string        // the rule that limits Want or Order
	// Failing reports that the last FailingAfter solves failed.
	Failing bool

	// These fields are set only for an adaptive target: the expected requests within a lead time, the probability that a
	// request finds no token if Want tokens are ready or ordered, and how many tokens may still expire.
	Forecast, Risk, Credit float64
}

// The values of Decision.Limit.
const (
	LimitNone   = ""
	LimitDepth  = "depth"  // the depth of the file, or of the warm window
	LimitCredit = "credit" // too many tokens expired in relation to the hits
	LimitProbe  = "probe"  // the last orders all failed, so orders are placed one at a time
	LimitIdle   = "idle"   // no request during idle_after
	LimitPaused = "paused"
)

// Lead returns the lead time by which tokens count as outliving or not. While `min` or a window keeps tokens, Lead
// returns a long lead time, so that these tokens are replaced early.
func (l *Learned) Lead(p Params, at time.Time) time.Duration {
	warm, _ := p.warm(at, p.Usable/2)
	switch {
	case !p.Adaptive:
		return min(inSeconds(l.lead(&p, 0.5)), p.Usable/2)
	case p.floor(warm) > 0:
		return inSeconds(l.lead(&p, calibrated.floorLead))
	}
	return inSeconds(l.lead(&p, 0.5))
}

// Decide returns how many tokens are wanted, how many to order, and when to decide again. It changes nothing.
func Decide(p Params, l *Learned, c *Snapshot, at time.Time) Decision {
	now := max(l.now, unix(at))
	d := Decision{Lead: c.Lead, Failing: c.FailedInARow >= FailingAfter}
	if p.Adaptive {
		d.Credit = l.credit.left
	}
	// The orders for a window are placed before it begins, but not so early that their tokens are old then.
	d.Warm, d.Next = p.warm(at, min(inSeconds(l.lead(&p, calibrated.windowLead)), p.Usable/2))
	if c.Paused {
		d.Limit, d.Next = LimitPaused, cmp.Or(c.Resumes, Never)
		return d
	}
	floor, most, silence := p.floor(d.Warm), p.most(d.Warm), now-max(l.memory.last, l.start)
	idle := p.IdleAfter > 0 && silence >= p.IdleAfter.Seconds()
	if p.Adaptive {
		l.adapt(&d, &p, c, now, idle)
	} else {
		d.Want = most
		if idle {
			d.Want, d.Limit = floor, LimitIdle
		} else if p.IdleAfter > 0 {
			d.Next = min(d.Next, inSeconds(p.IdleAfter.Seconds()-silence))
		}
		d.Order = max(0, d.Want-(c.Outliving+c.Orders-c.Waiting))
	}
	// Before these times, only an event can change the decision.
	if c.NextAgeing >= 0 {
		d.Next = min(d.Next, c.NextAgeing)
	}
	if c.NextEnd > 0 {
		d.Next = min(d.Next, c.NextEnd)
	}
	if d.Failing && d.Order > 0 {
		order, next := 1, ProbeEvery
		if left := ProbeEvery - inSeconds(now-l.placed); left > 0 {
			order, next = 0, left
		}
		if order < d.Order {
			d.Order, d.Limit = order, LimitProbe
		}
		d.Next = min(d.Next, next)
	}
	return d
}

// adapt fills in the decision for an adaptive target.
func (l *Learned) adapt(d *Decision, p *Params, c *Snapshot, now float64, idle bool) {
	scale, floor, most := l.memory.scale, p.floor(d.Warm), p.most(d.Warm)
	affords := l.credit.affords(now, scale)
	held := max(floor, min(most, calibrated.heldTimes*affords))
	o := l.outlook(p, now)
	asked := o.enough(most)
	switch {
	case asked <= floor:
		d.Want = floor
	case idle:
		d.Want, d.Limit = floor, LimitIdle
	case asked > affords:
		d.Want, d.Limit = max(floor, affords), LimitCredit
	case asked == most:
		d.Want, d.Limit = most, LimitDepth
	default:
		d.Want = asked
	}
	d.Forecast, d.Risk = o.soon[0].served(len(o.soon[0])), o.risk(d.Want)
	// Without a request, the forecast changes slowly. Without a first request, it does not change.
	switch silence := (now - l.memory.last) / scale; {
	case l.memory.last == 0 && d.Limit == LimitNone:
	case d.Want > 0 || silence <= 2*calibrated.decay:
		d.Next = min(d.Next, inSeconds(scale))
	case o.use.atLeast(1) > 0.05:
		d.Next = min(d.Next, inSeconds(2*scale))
	default:
		d.Next = min(d.Next, inSeconds(10*scale))
	}
	// A token that expires within the lead time counts by the probability that it is used before, an order by the
	// probability that it lands.
	effective := float64(c.Outliving) + o.within(c.Lead.Seconds()).served(c.Fresh-c.Outliving) +
		(1-l.fails)*float64(c.Orders) - float64(c.Waiting)
	missing := max(0, int(math.Floor(float64(d.Want)-effective+0.5)))
	room := max(0, held+c.Waiting-c.Fresh-c.Orders) // the limit holds even if all orders land
	if missing > room && d.Want > c.Outliving+c.Orders-c.Waiting+room {
		d.Limit = LimitDepth
		if held < most {
			d.Limit = LimitCredit
		}
	}
	d.Order = min(missing, room)
	if c.NextExpiry > 0 {
		d.Next = min(d.Next, c.NextExpiry)
	}
}
