package policy

import (
	"math"
	"time"
)

// Never is the value of Decision.Next if only an event can change the decision.
const Never = time.Duration(math.MaxInt64)

// Params are the settings of one target in the file, and the poll times of its provider.
type Params struct {
	Adaptive  bool          // false = keep Depth
	Depth     int           // fixed: number of tokens; adaptive: maximum number of tokens and orders
	Min       int           // adaptive: number of tokens kept even without demand; at most Depth
	HitRate   float64       // adaptive: wanted share of hits among the requests
	MissCost  float64       // adaptive: expired tokens that one avoided miss may cost
	IdleAfter time.Duration // time without a request after which only Min tokens are kept; 0 = never
	Usable    time.Duration // lifetime less margin; positive
	Warm      []Warm

	// The poll times of the provider. Their sum is the assumed lead time before the first solves.
	FirstPoll, PollInterval time.Duration
}

// Warm is a recurring window with a minimum of ready tokens.
type Warm struct {
	Tokens int
	// Next returns the first run of the window that has not ended at the given time. It may have begun.
	Next func(at time.Time) (from, until time.Time)
}

// Snapshot is what Redis knows of a target, over all replicas.
type Snapshot struct {
	Lead         time.Duration   // with which Outliving was counted
	Fresh        int             // tokens that outlive the margin
	Outliving    int             // Fresh tokens that outlive margin + Lead
	Orders       int             // orders in flight
	Waiting      int             // pending callers
	Paused       bool            // an operator paused buying
	Resumes      time.Duration   // time until the pause ends by itself; 0 = the pause has no end
	NextExpiry   time.Duration   // time until the first fresh token reaches its margin; <0 = no fresh token
	NextAgeing   time.Duration   // time until Outliving falls; <0 = Outliving is 0
	NextEnd      time.Duration   // time until the first deadline of an order; <=0 = no order
	Leads        []time.Duration // the last 48 lead times
	FailedInARow int             // orders that failed in a row
	Totals       Totals
}

// Totals count events since the target was first seen.
type Totals struct {
	Requests int64 `json:"requests"` // hits, waits, misses, and callers that left during their wait
	Hits     int64 `json:"hits"`     // requests that got a token at once
	Solved   int64 `json:"solved"`   // tokens that landed
	Failed   int64 `json:"failed"`   // orders that ended without a token
	Expired  int64 `json:"expired"`  // tokens that expired unused
}

// calibrated has the constants that are not derived, and the only switches of the mechanisms. Times are in seconds at
// a median lead time of usualLead, and stretch with the lead times. scripts/policy-tables prints how a change of them
// affects the cost of each demand and, with -a, the value of each mechanism.
var calibrated = struct {
	decay        float64 // time constant of the count of recent requests
	prior        float64 // shape of the rate without requests
	rateWeight   float64 // of the rate, in similar moments
	entries      int     // remembered ticks with requests
	tick         float64 // requests within a tick are one entry
	moments      int     // about as many moments are enough for a forecast
	alike        float64 // moments are similar if the logarithms of their counts differ by less
	ignoreCounts float64 // after such a silence, all moments are similar

	leads   [3]float64 // quantiles of the lead time for the risk
	weights [3]float64 // of these quantiles
	cheaper float64    // factor on the value of one more token; with 1 there are fewer hits for the same cost
	alone   float64    // another request soon is rare if it comes less often than by chance, by this factor

	// The mean wait for a permit is a moving average over about permitWaits orders that waited. Orders that did not
	// wait lower it more slowly: permitFree instead of permitWaits.
	permitWaits, permitFree float64

	missEarns   float64 // share of miss_cost that a miss adds to the credit; a hit adds all of it
	startMisses float64 // a new target may waste the cost of this many misses, or startLeast tokens
	startLeast  float64
	saveUp      float64 // the credit is at most this many times that
	heldTimes   int     // tokens and orders are at most this many times what the credit affords

	floorLead  float64 // quantile of the lead time by which min and windows are renewed ahead
	windowLead float64 // quantile of the lead time by which orders precede a window
	failDecay  float64 // of the share of failed solves, at each solve
	failPrior  float64
}{
	decay: 60, prior: 0.02, rateWeight: 2, entries: 1024, tick: 1, moments: 200, alike: 0.5, ignoreCounts: 190,
	leads: [3]float64{0.5, 0.85, 0.97}, weights: [3]float64{0.6, 0.3, 0.1}, cheaper: 2, alone: 0.5,
	permitWaits: 16, permitFree: 128,
	missEarns: 0.05, startMisses: 5, startLeast: 10, saveUp: 16, heldTimes: 2,
	floorLead: 0.8, windowLead: 0.95, failDecay: 0.98, failPrior: 1.0 / 14,
}

const (
	// FailingAfter is the number of consecutive failed solves after which orders are probes.
	FailingAfter = 8
	// ProbeEvery is the time between two probes.
	ProbeEvery = 5 * time.Second

	// usualLead is the lead time in seconds for which the constants are calibrated. If the median differs by more than
	// farFactor from the one in use, the scale changes. It is at least leastScale and at most mostScale.
	usualLead             = 18.0
	farFactor             = 1.7
	leastScale, mostScale = 0.005, 200.0
	// The lead time is guessed until leadsToLearn lead times are known. The scale does not change until leadsToScale
	// are known.
	leadsToLearn, leadsToScale = 3, 8
)

// guess is the assumed lead time before the first solves. It is at most half the usable life, because an earlier
// order would replace a token that is still good.
func (p *Params) guess() time.Duration { return min(p.FirstPoll+p.PollInterval, p.Usable/2) }

// most returns the maximum number of tokens to keep.
func (p *Params) most(warm int) int { return max(0, p.Depth, warm) }

// floor returns how many tokens are kept even without demand.
func (p *Params) floor(warm int) int { return min(max(p.Min, warm), p.most(warm)) }

// warm returns how many tokens to keep for windows that run now or begin within the lead time, and how long this
// number applies.
func (p *Params) warm(at time.Time, lead time.Duration) (tokens int, lasts time.Duration) {
	lasts = Never
	for _, w := range p.Warm {
		from, until := w.Next(at)
		if in := from.Sub(at); in > lead {
			lasts = min(lasts, in-lead)
		} else {
			tokens, lasts = max(tokens, w.Tokens), min(lasts, until.Sub(at))
		}
	}
	return tokens, lasts
}
