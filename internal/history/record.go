package history

import (
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// Record is the end of an order. It never contains a token, a picture or a proxy.
type Record struct {
	ID       string     // pool.Ref's text: unique, whatever the service
	Identity captcha.ID // the second part of ID
	Target   string     // "/solve" = a guest
	Owner    string     // of the target
	Type     captcha.Type
	Sitekey  string // "" = the type has none, as pictures
	Pageurl  string // "" = the type has none
	Provider string // the last one of the order
	Task     string // the provider's id; "" = unknown
	How      How
	Code     string // the provider's error code; "" = none
	// Placed, Submitted and Ended are in whole milliseconds, UTC, by Redis' clock. Submitted is zero if the order was
	// not submitted.
	Placed, Submitted, Ended time.Time
	// Solved is the earliest possible time of the solve; zero = no token.
	Solved   time.Time
	Polls    int   // by the replica that ended the order
	Callback bool  // a callback ended the order
	Price    int64 // in billionths of the currency; negative = unknown; 0 unless Costs
}

// Elapsed is the time from submit to end, or 0 without a submit.
func (r Record) Elapsed() time.Duration {
	if r.Submitted.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Submitted)
}

// IsOrder reports whether id has the form of a record's ID. Task finds no record by such a task id.
func IsOrder(id string) bool {
	_, ok := pool.ParseRef(id)
	return ok
}

// How is how an order ended.
type How string

// The ends of an order.
const (
	Solved    How = "solved"    // with a token for the stock
	Discarded How = "discarded" // with an expired token
	Failed    How = "failed"    // a fault or time-out of the service, or a token that it had sold before
	Refused   How = "refused"   // at the submit; nothing was bought
	Lost      How = "lost"      // the deadline passed without a result
)

// Status groups records for queries.
type Status string

// The statuses. Orders under way have no record; pool's journal has them.
const (
	StatusSolved  Status = "solved"
	StatusError   Status = "error" // every other end
	StatusPolling Status = "polling"
)

// Status returns the status of the record.
func (r Record) Status() Status {
	if r.How == Solved {
		return StatusSolved
	}
	return StatusError
}
