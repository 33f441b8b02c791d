package pool

import (
	"cmp"
	"time"

	"poold/internal/captcha"
)

// The times of a claim.
const (
	ClaimLease   = 5 * time.Second   // how long its holder has it without holding it again
	ClaimWanted  = 3 * time.Second   // how long a replica counts as waiting after it asked
	ClaimLongest = 180 * time.Second // how long a solve may be under way
	ClaimSolved  = 60 * time.Second  // how long its token is shared, at most
	ClaimFailed  = 30 * time.Second  // how long those who waited can learn that it failed
)

// ClaimTimes are the times of a claim as a store knows them; 0 = the one above of that
// name.
type ClaimTimes struct{ Lease, Wanted, Longest, Solved, Failed time.Duration }

// OrDefault puts the times above where there is none.
func (t ClaimTimes) OrDefault() ClaimTimes {
	return ClaimTimes{
		Lease:   cmp.Or(t.Lease, ClaimLease),
		Wanted:  cmp.Or(t.Wanted, ClaimWanted),
		Longest: cmp.Or(t.Longest, ClaimLongest),
		Solved:  cmp.Or(t.Solved, ClaimSolved),
		Failed:  cmp.Or(t.Failed, ClaimFailed),
	}
}

// ClaimState is how far the solve of a claim is.
type ClaimState string

// The states of a claim, as one replica is told of it.
const (
	ClaimHeld    ClaimState = "held"    // this replica is the one that solves, from now on
	ClaimSolving ClaimState = "solving" // another replica does
	ClaimShared  ClaimState = "solved"  // it has a token
	ClaimError   ClaimState = "error"   // it brought none
)

// ClaimEntry is how a replica asks for the solve of a key.
type ClaimEntry struct {
	Key captcha.ID
	// Solve is the one that the callers wait for; "" = they come new, for whatever
	// there is.
	Solve string
	// Identity is whose stock a new solve takes from.
	Identity captcha.ID
	// Sitekey and Pageurl are for people who look at the table in PostgreSQL.
	Sitekey, Pageurl string
	// Callers is how many are served by a token in the answer; they are counted then.
	Callers int
}

// Claim is what is known of a key's solve.
type Claim struct {
	State ClaimState
	Solve string // names the solve, whoever holds it
	Fence int64  // of ClaimHeld: only who has the latest one can end the solve
	// Identity is whose stock the solve takes from: that of who began it, or of who
	// held it last.
	Identity captcha.ID
	// Left is how long a solve that is held may go on, or a token is shared.
	Left time.Duration
	// Value is what End was given: of ClaimShared and ClaimError; nil where nobody
	// knows any more how the solve ended.
	Value []byte
}

// ClaimEnd is how a solve ended.
type ClaimEnd struct {
	Value  []byte        // what those who wait are told
	Failed bool          // it is told to those who wait alone; who comes later begins anew
	Lasts  time.Duration // of a token: how long it may be shared; cut to ClaimSolved
}

// SavingsSource is how a request to /solve ended: how it came by its token, or that it got
// none.
type SavingsSource string

// The sources that savings are counted by.
const (
	SavedPool    SavingsSource = "pool"         // was waiting
	SavedSolve   SavingsSource = "solve"        // was bought for it
	SavedWaiting SavingsSource = "shared_wait"  // shared a solve that was under way
	SavedAfter   SavingsSource = "shared_cache" // shared one that had ended
	SavedReplay  SavingsSource = "replay"       // repeated by Idempotency-Key
	SavedMissed  SavingsSource = "missed"       // no token came: in time, at all, or before the caller hung up
	SavedRefused SavingsSource = "refused"      // was answered that no token can come
)

// SavingsDay counts the requests of one UTC day.
type SavingsDay struct {
	Date     string // 2006-01-02
	BySource map[SavingsSource]int64
}
