package refill

import (
	"slices"
	"time"

	"poold/internal/pool"
)

// State is what a target wants and what it has.
type State struct {
	Depth        int
	Usable       time.Duration // lifetime less margin
	FirstPoll    time.Duration // of the provider that would be asked now
	PollInterval time.Duration
	Stock        pool.Stock // as looked at with the lead of the last decision
}

// Fixed is `refill: fixed` by the README's one sentence, which a Mind with a fixed
// depth is held against: an order is placed
// while (fresh tokens that outlive the lead time) + (orders) - (callers
// waiting) < depth. A replacement is therefore ordered a lead time before a
// token leaves the fresh ones, and an order more for each caller that waits.
//
// The decision is right for Stock only if that was looked at with the lead
// that it names; where it names another one, look again.
func Fixed(s State) Decision {
	d := Decision{
		Lead: Lead(s.Stock.Leads, s.FirstPoll, s.PollInterval, s.Usable),
		Look: Never,
	}
	if len(s.Stock.Leads) >= solvesToWait {
		d.Shortest = slices.Min(s.Stock.Leads)
	}
	if s.Stock.Paused {
		return d
	}
	d.Want = s.Depth
	d.Order = short(s.Depth, &s.Stock)
	d.Look = nextChange(&s.Stock)
	return d
}
