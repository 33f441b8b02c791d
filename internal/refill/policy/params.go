package policy

import "time"

// Params is what the file says about buying for one target.
type Params struct {
	Adaptive  bool          // false: keep Depth
	Depth     int           // fixed: kept; adaptive: the most ever kept and on order
	Min       int           // adaptive: kept whatever the demand; at most Depth
	HitRate   float64       // adaptive: wanted share of requests that find a token
	MaxWaste  float64       // adaptive: spare tokens that saving one caller a wait is worth
	IdleAfter time.Duration // no request for this long: fall to Min; 0 = never
	Usable    time.Duration // lifetime less margin

	// Of the provider that would be asked; their sum is the lead time that is
	// assumed while none is known.
	FirstPoll, PollInterval time.Duration
}

// remembers reports whether the demand so far matters to the policy.
func (p Params) remembers() bool { return p.Adaptive || p.IdleAfter > 0 }

// Lead is the time from submit to token to reckon with while none is known: never
// above half the usable life, since a token that is ordered earlier than that
// displaces one that is still good.
func (p Params) Lead() time.Duration {
	return max(0, min(p.FirstPoll+p.PollInterval, p.Usable/2))
}

// most is the cap: depth, or more in a warm window that keeps so many.
func (p *Params) most(warm int) int { return max(0, p.Depth, warm) }

// floor is what is kept whatever the demand.
func (p *Params) floor(warm int) int { return min(max(p.Min, warm), p.most(warm)) }
