package policy

import "time"

// Params are the settings of one target in the file.
type Params struct {
	Adaptive  bool          // false: keep Depth
	Depth     int           // fixed: kept; adaptive: the most ever kept and on order
	Min       int           // adaptive: kept whatever the demand; at most Depth
	HitRate   float64       // adaptive: wanted share of requests that find a token
	MaxWaste  float64       // adaptive: expired tokens that one avoided miss may cost
	IdleAfter time.Duration // no request for this long: fall to Min; 0 = never
	Usable    time.Duration // lifetime less margin

	// The provider's poll times; their sum is the assumed lead time before the first solve.
	FirstPoll, PollInterval time.Duration
}

// remembers reports whether the policy uses the demand so far.
func (p Params) remembers() bool { return p.Adaptive || p.IdleAfter > 0 }

// Lead returns the assumed lead time before the first solve. It is at most half the usable life, because
// an earlier order would displace a token that is still good.
func (p Params) Lead() time.Duration {
	return max(0, min(p.FirstPoll+p.PollInterval, p.Usable/2))
}

// most returns the cap: depth, or more in a greater warm window.
func (p *Params) most(warm int) int { return max(0, p.Depth, warm) }

// floor returns how many tokens are kept whatever the demand.
func (p *Params) floor(warm int) int { return min(max(p.Min, warm), p.most(warm)) }
