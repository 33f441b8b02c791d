package history

import (
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// Record is how one order ended. It never holds a token, a picture or a proxy.
type Record struct {
	ID       string     // pool.Ref's text: unique, whatever the service
	Identity captcha.ID // what the order was for; the second part of ID
	Target   string     // that it was placed for; "/solve" = a guest
	Owner    string     // who answers for the target
	Type     captcha.Type
	Sitekey  string // "" where the type has none, as pictures
	Pageurl  string // the same
	Provider string // that was asked last
	Task     string // the provider's id; "" = none is known
	How      How
	Code     string // the provider's error code; "" = none
	// Placed, Submitted and Ended are in whole milliseconds, UTC, on Redis' clock.
	// Submitted is zero where it did not come to that.
	Placed, Submitted, Ended time.Time
	// Solved is when the token can have been solved at the earliest; zero where there
	// is none.
	Solved   time.Time
	Polls    int   // by the replica that ended it
	Callback bool  // a callback ended it
	Price    int64 // what the order cost, in billionths of the currency; below 0 = unknown. Only orders that Costs has a price
}

// Elapsed is the time from submit to end; 0 where nothing was submitted.
func (r Record) Elapsed() time.Duration {
	if r.Submitted.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Submitted)
}

// IsOrder reports whether id reads like the ID of a record. No record is looked up by a task
// whose id does.
func IsOrder(id string) bool {
	_, ok := pool.ParseRef(id)
	return ok
}

// How is how an order ended.
type How string

// The ends of an order.
const (
	Solved    How = "solved"    // with a token for the stock
	Discarded How = "discarded" // with a token that was dead already
	Failed    How = "failed"    // the service had none: a fault, its time-out, or a token it had sold before
	Refused   How = "refused"   // at the submit; nothing was bought
	Lost      How = "lost"      // its time was over, and nobody knows how it ended
)

// Status is what the tasks of a service are sorted by.
type Status string

// The statuses. Tasks that are under way are no records: pool's journal has them.
const (
	StatusSolved  Status = "solved"
	StatusError   Status = "error" // each other end
	StatusPolling Status = "polling"
)

// Status is that of the record's task.
func (r Record) Status() Status {
	if r.How == Solved {
		return StatusSolved
	}
	return StatusError
}
