// Package dedup has the types of shared solves (`dedup: identity`): claims and savings. Package ondemand,
// the two claim stores (redisclaims and pgclaims) and their tests share these types.
package dedup

import (
	"cmp"
	"time"

	"poold/internal/captcha"
)

// The time limits of a claim.
const (
	ClaimLease   = 5 * time.Second   // life of a lease that is not renewed
	ClaimWanted  = 3 * time.Second   // how long a replica counts as waiting after its last call of Enter
	ClaimLongest = 180 * time.Second // longest time of a solve
	ClaimSolved  = 60 * time.Second  // longest time for which a token is shared
	ClaimFailed  = 30 * time.Second  // how long the waiting replicas can read a failure
)

// ClaimTimes are the time limits of the claims in a store. A zero field means the constant of the same
// name, such as ClaimLease for Lease. Tests outside a synctest bubble use shorter times.
type ClaimTimes struct{ Lease, Wanted, Longest, Solved, Failed time.Duration }

// OrDefault replaces zero fields by the constants.
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

// The states of a claim, as Enter reports them to one replica.
const (
	ClaimHeld    ClaimState = "held"    // this replica holds the claim and must solve
	ClaimSolving ClaimState = "solving" // another replica holds the claim
	ClaimShared  ClaimState = "solved"  // the solve ended with a token
	ClaimError   ClaimState = "error"   // the solve ended without a token
)

// ClaimEntry is a replica's request for the solve of a key.
type ClaimEntry struct {
	Key captcha.ID
	// Solve names the solve that the callers wait for; "" = these are new callers, which join any
	// solve.
	Solve string
	// Identity names the stock that a new solve takes from.
	Identity captcha.ID
	// Sitekey and Pageurl are for operators who read the table in PostgreSQL.
	Sitekey, Pageurl string
	// Callers is the number of requests of this replica. If Enter returns a token, all these requests
	// share the token and are counted in the savings.
	Callers int
}

// Claim is the state of a key's solve.
type Claim struct {
	State ClaimState
	Solve string // name of the solve, which stays the same when another replica becomes the holder
	Fence int64  // set in the state ClaimHeld: only the holder with the latest fence can end the solve
	// Identity names the stock from which the solve takes its token, as noted by the last holder.
	Identity captcha.ID
	// Left is the remaining time of the solve. In the state ClaimShared, Left is the remaining time in
	// which the token may be shared.
	Left time.Duration
	// Value is ClaimEnd.Value in the states ClaimShared and ClaimError; nil = the store has deleted
	// the value.
	Value []byte
}

// ClaimEnd is the end of a solve.
type ClaimEnd struct {
	Value  []byte        // the encoded token or error for the waiting replicas
	Failed bool          // true: Value is only for replicas that already wait; later requests begin a new solve
	Lasts  time.Duration // how long a token may be shared; at most ClaimSolved
}

// SavingsSource is how a request to /solve ended: with a token of this source, or without a token.
type SavingsSource string

// The sources by which savings are counted.
const (
	SavedPool    SavingsSource = "pool"         // the token was ready in the stock
	SavedSolve   SavingsSource = "solve"        // the token was bought for the request
	SavedWaiting SavingsSource = "shared_wait"  // the request shared a solve in flight
	SavedAfter   SavingsSource = "shared_cache" // the request shared the token of a solve that had ended
	SavedReplay  SavingsSource = "replay"       // the request repeated an Idempotency-Key
	SavedMissed  SavingsSource = "missed"       // no token came before the time-out or before the caller hung up
	SavedRefused SavingsSource = "refused"      // the response said that no token can come
)

// SavingsDay counts the requests of one UTC day.
type SavingsDay struct {
	Date     string // in the form 2006-01-02
	BySource map[SavingsSource]int64
}
