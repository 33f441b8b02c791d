package policy

import "time"

// Stock describes a target's tokens and orders for the policy.
type Stock struct {
	Fresh      int             // tokens that outlive the margin
	Outliving  int             // Fresh tokens that outlive margin + lead
	Orders     int             // orders in flight
	Waiting    int             // pending callers
	Paused     bool            // an operator paused buying
	Resumes    time.Duration   // time until the pause ends by itself; 0 = the pause has no end
	NextExpiry time.Duration   // time until the first fresh token reaches its margin; <0 = no fresh token
	NextLook   time.Duration   // time until Outliving falls; <0 = Outliving is 0
	NextEnd    time.Duration   // time until the first order expires; 0 = no order
	Leads      []time.Duration // the last 48 lead times, newest first
	Figures    Figures
}

// Figures are the counts of a target over all replicas.
type Figures struct {
	Requests int64 // hits, waits, misses, and callers that left during their wait
	Hits     int64 // requests that got a token at once
	Waited   int64 // requests that got a token after a wait
	Misses   int64 // requests that got no token
	Solved   int64 // tokens that landed
	Failed   int64 // orders that ended without a token
	Expired  int64 // tokens that expired unused
}

// Warm is a recurring window.
type Warm struct {
	Tokens int
	// Next returns the first run of the window that has not ended at the given time. The returned end
	// of the run is after the given time. The returned start may be before the given time.
	Next func(at time.Time) (from, until time.Time)
}
