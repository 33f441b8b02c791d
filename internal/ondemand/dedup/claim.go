// Package dedup is the vocabulary of shared solves (`dedup: identity`): the claim of a key and the
// savings, as ondemand, its two stores (redisclaims, pgclaims) and their tests name them.
package dedup

import (
	"cmp"
	"time"

	"poold/internal/captcha"
)

// The times of a claim.
const (
	ClaimLease   = 5 * time.Second   // life of a lease that is not renewed
	ClaimWanted  = 3 * time.Second   // how long a replica counts as waiting after its last Enter
	ClaimLongest = 180 * time.Second // limit of a solve
	ClaimSolved  = 60 * time.Second  // limit of the time in which a token is shared
	ClaimFailed  = 30 * time.Second  // life of a failure, for the waiting replicas
)

// ClaimTimes are the times of a claim in a store; 0 = the constant of that name. Tests without
// a bubble shorten them.
type ClaimTimes struct{ Lease, Wanted, Longest, Solved, Failed time.Duration }

// OrDefault replaces zeros by the constants.
func (t ClaimTimes) OrDefault() ClaimTimes {
	return ClaimTimes{
		Lease:   cmp.Or(t.Lease, ClaimLease),
		Wanted:  cmp.Or(t.Wanted, ClaimWanted),
		Longest: cmp.Or(t.Longest, ClaimLongest),
		Solved:  cmp.Or(t.Solved, ClaimSolved),
		Failed:  cmp.Or(t.Failed, ClaimFailed),
	}
}

// ClaimState is the state of a claim's solve.
type ClaimState string

// The states of a claim, as one replica sees it.
const (
	ClaimHeld    ClaimState = "held"    // this replica holds the claim and must solve
	ClaimSolving ClaimState = "solving" // another replica holds it
	ClaimShared  ClaimState = "solved"  // the solve brought a token
	ClaimError   ClaimState = "error"   // the solve brought no token
)

// ClaimEntry is a replica's request for the solve of a key.
type ClaimEntry struct {
	Key captcha.ID
	// Solve names the solve that the callers wait for; "" = they are new, and join any.
	Solve string
	// Identity names the stock that a new solve takes from.
	Identity captcha.ID
	// Sitekey and Pageurl are for operators who read the table in PostgreSQL.
	Sitekey, Pageurl string
	// Callers is the number of requests that a token in the answer serves, and that are
	// counted then.
	Callers int
}

// Claim is the state of a key's solve.
type Claim struct {
	State ClaimState
	Solve string // names the solve; a new holder keeps the name
	Fence int64  // of ClaimHeld: only the holder with the latest fence can end the solve
	// Identity names the stock that the solve takes from, as its last holder noted it.
	Identity captcha.ID
	// Left is the time left: for a held solve, or for sharing a token.
	Left time.Duration
	// Value is ClaimEnd.Value, of ClaimShared and ClaimError; nil if the end is forgotten.
	Value []byte
}

// ClaimEnd is the end of a solve.
type ClaimEnd struct {
	Value  []byte        // for the waiting replicas
	Failed bool          // only replicas that wait now learn Value; later requests begin a new solve
	Lasts  time.Duration // how long a token may be shared; at most ClaimSolved
}

// SavingsSource is how a request to /solve ended: with a token of that source, or without one.
type SavingsSource string

// The sources that savings are counted by.
const (
	SavedPool    SavingsSource = "pool"         // was waiting
	SavedSolve   SavingsSource = "solve"        // was bought for it
	SavedWaiting SavingsSource = "shared_wait"  // shared a solve that was under way
	SavedAfter   SavingsSource = "shared_cache" // shared a solve that had ended
	SavedReplay  SavingsSource = "replay"       // repeated by Idempotency-Key
	SavedMissed  SavingsSource = "missed"       // no token came: in time, at all, or before the caller hung up
	SavedRefused SavingsSource = "refused"      // was answered that no token can come
)

// SavingsDay counts the requests of one UTC day.
type SavingsDay struct {
	Date     string // 2006-01-02
	BySource map[SavingsSource]int64
}
