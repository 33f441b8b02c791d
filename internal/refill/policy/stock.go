package policy

import "time"

// Stock is what the policy sees of a target's tokens and orders.
type Stock struct {
	Fresh      int             // tokens that outlive the margin
	Outliving  int             // Fresh tokens that outlive margin + lead
	Orders     int             // in flight
	Waiting    int             // pending callers
	Paused     bool            // by an operator
	Resumes    time.Duration   // until the pause ends by itself; 0 = it does not
	NextExpiry time.Duration   // until the first fresh token reaches its margin; <0 = no fresh token
	NextLook   time.Duration   // until the first of Outliving no longer outlives; <0 = there is none
	NextEnd    time.Duration   // until the first order expires; 0 = there is none
	Leads      []time.Duration // the last 48 lead times, newest first
	Windows    []Window        // made by POST, present or future
	Figures    Figures
}

// Figures are the counts of a target, over all replicas.
type Figures struct {
	Requests int64 // hits, waited, misses, and callers that left while they waited
	Hits     int64 // got a token at once
	Waited   int64 // got a token that landed while they waited
	Misses   int64 // got no token
	Solved   int64 // tokens that landed
	Failed   int64 // orders that ended without one
	Expired  int64 // tokens that expired unused
}

// Window is a time in which tokens are kept ready, relative to when it was read.
type Window struct {
	Tokens int
	In     time.Duration // until it begins; 0 or less = it has begun
	Left   time.Duration // until it ends
}

// Warm is a recurring window.
type Warm struct {
	Tokens int
	// Next returns the first run that is not over at a moment: until is after it, from may be before.
	Next func(at time.Time) (from, until time.Time)
}
