package policy

import "time"

// Stock is what the policy is told of a target's tokens and orders.
type Stock struct {
	Fresh      int             // tokens that outlive the margin
	Outliving  int             // those of them that outlive margin + lead
	Orders     int             // under way
	Waiting    int             // callers that wait
	Paused     bool            // by an operator
	Resumes    time.Duration   // until that ends by itself; 0 = it does not
	NextExpiry time.Duration   // until the first fresh one meets its margin; <0 = none is fresh
	NextLook   time.Duration   // until the first of the outliving stops outliving; <0 = there is none
	NextEnd    time.Duration   // until the first order is forgotten; 0 = there is none
	Leads      []time.Duration // the last 48 lead times, newest first
	Windows    []Window        // that somebody asked for, running or to come
	Figures    Figures
}

// Figures count what has happened to a target, over all replicas.
type Figures struct {
	Requests int64 // hits, waited, misses and who hung up waiting
	Hits     int64 // got a token at once
	Waited   int64 // got one that landed while they waited
	Misses   int64 // got none
	Solved   int64 // tokens that landed
	Failed   int64 // orders that ended without one
	Expired  int64 // tokens that died unused
}

// Window is a time in which tokens are kept ready, as seen when it was read.
type Window struct {
	Tokens int
	In     time.Duration // until it begins; 0 or less: it runs
	Left   time.Duration // until it ends
}

// Warm is a window that comes again and again.
type Warm struct {
	Tokens int
	// Next is the first one that is not over at a moment: from may lie before it,
	// until never does.
	Next func(at time.Time) (from, until time.Time)
}
