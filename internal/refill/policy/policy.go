package refill

import (
	"math"
	"slices"
	"time"

	"poold/internal/pool"
)

const (
	// Never is the Look of a decision that nothing but a change can overturn.
	Never = time.Duration(math.MaxInt64)

	// solvesToLearn is how many lead times make a median worth believing.
	solvesToLearn = 3
	// solvesToWait is how many of them say how soon a solve can be.
	solvesToWait = 8
	// failuresInARow of a target's own turn its orders into probes
	failuresInARow = 8
	// of which one is placed per probeEvery.
	probeEvery = 5 * time.Second
)

// Decision is what a policy answers.
type Decision struct {
	Want  int           // how many tokens it wants ready or on their way
	Most  int           // tokens + orders - callers waiting never go beyond
	Order int           // how many to order now
	Lead  time.Duration // lead time to look at the stock with
	// Shortest is the shortest lead time of late; 0 where too few are known.
	Shortest time.Duration
	// Look is how long the decision holds if nothing happens to the stock but
	// the passing of time.
	Look time.Duration

	// What led to it; zero for `refill: fixed`, but for the rails that it has.
	Forecast float64 // requests expected within one lead time
	Risk     float64 // that a request finds nothing although Want tokens were ahead of it
	Rail     string  // what held the target back, RailNone for nothing
	Warm     int     // tokens that warm windows want ready
	Credit   float64 // tokens that may still expire before only `min` is kept
}

// short is how many tokens the depth sentence lacks. In the README's words: an
// order is placed while (fresh tokens that outlive the lead time) + (orders) -
// (callers waiting) < depth, so a replacement is ordered a lead time before a token
// leaves the fresh ones, and an order more for each caller that waits.
func short(depth int, s *pool.Stock) int {
	return max(0, depth-(s.Outliving+s.Orders-s.Waiting))
}

// nextChange is how long only an event changes the sum: until a token stops
// outliving the lead or an order runs out of time.
func nextChange(s *pool.Stock) time.Duration {
	next := Never
	if s.NextLook >= 0 {
		next = s.NextLook
	}
	if s.NextEnd > 0 {
		next = min(next, s.NextEnd)
	}
	return next
}

// Lead is the time from submit to token to reckon with: the median of the
// learned ones, firstPoll + interval before there are three, never above half
// the usable life, since a token that is ordered earlier than that displaces
// one that is still good.
func Lead(learned []time.Duration, firstPoll, interval, usable time.Duration) time.Duration {
	lead := firstPoll + interval
	if len(learned) >= solvesToLearn {
		lead = median(learned)
	}
	return max(0, min(lead, usable/2))
}

// median leaves its argument as it is.
func median(of []time.Duration) time.Duration {
	var room [48]time.Duration // as many as the stock remembers
	sorted := append(room[:0], of...)
	slices.Sort(sorted)
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Throttle slows a target down whose last orders all failed: with eight
// failures in a row or more one order is placed per 5 s, as a probe, until one
// succeeds. since is how long ago the target's last order was placed.
func Throttle(d Decision, failures int, since time.Duration) Decision {
	if failures < failuresInARow || d.Order == 0 {
		return d
	}
	next := probeEvery - since
	if next <= 0 {
		d.Order, next = 1, probeEvery
	} else {
		d.Order = 0
	}
	d.Look = min(d.Look, next)
	return d
}
