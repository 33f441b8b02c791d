package policy

import "time"

// Params are the settings of one target in the file, and the poll times of its provider.
type Params struct {
	Adaptive  bool          // false = keep Depth
	Depth     int           // fixed: number of tokens; adaptive: maximum number of tokens and orders
	Min       int           // adaptive: number of tokens kept even without demand; at most Depth
	HitRate   float64       // adaptive: wanted share of hits among the requests
	MaxWaste  float64       // adaptive: expired tokens that one avoided miss may cost
	IdleAfter time.Duration // time without a request after which only Min tokens are kept; 0 = never
	Usable    time.Duration // lifetime less margin

	// The poll times of the provider. The sum of both is the assumed lead time before the first
	// solve.
	FirstPoll, PollInterval time.Duration
}

// remembers reports whether the policy uses the past demand.
func (p Params) remembers() bool { return p.Adaptive || p.IdleAfter > 0 }

// Lead returns the assumed lead time before the first solve. The assumed lead time is at most half
// the usable life, because an earlier order would replace a token that is still good.
func (p Params) Lead() time.Duration {
	return max(0, min(p.FirstPoll+p.PollInterval, p.Usable/2))
}

// most returns the maximum number of tokens: the depth or, if greater, the tokens of the
// warm windows.
func (p *Params) most(warm int) int { return max(0, p.Depth, warm) }

// floor returns how many tokens are kept even without demand.
func (p *Params) floor(warm int) int { return min(max(p.Min, warm), p.most(warm)) }
