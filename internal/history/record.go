package history

import (
	"regexp"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// Record describes an order that has ended. It never contains a token, a picture or a proxy.
type Record struct {
	ID       string     // "ORDER.IDENTITY", unique among the orders of all providers
	Identity captcha.ID // the second part of ID, also for a guest
	Target   string     // "/solve" = a guest
	Owner    string     // the owner of the target
	Type     captcha.Type
	Sitekey  string // "" = the type has no site key; for example, pictures have none
	Pageurl  string // "" = the type has no page
	Provider string // the last provider of the order
	Choice   string // how the provider was chosen, see purchase.Purchase; "" = unknown
	Task     string // the provider's task id; "" = unknown
	How      How
	Code     string // the provider's error code; "" = none
	// Placed, Submitted and Ended are times of Redis' clock, in UTC and whole milliseconds. Submitted is zero if the order
	// was not submitted.
	Placed, Submitted, Ended time.Time
	// Solved is the earliest time at which the service may have solved the task; zero = the order ended
	// without a token.
	Solved   time.Time
	Polls    int   // number of polls by the replica that ended the order
	Callback bool  // a callback ended the order
	Price    int64 // price in billionths of the currency; negative = unknown; 0 unless Costs returns true
}

// Elapsed returns the time from the submission to the end of the order. It returns 0 if the order was not submitted.
func (r Record) Elapsed() time.Duration {
	if r.Submitted.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Submitted)
}

// OrderID returns the ID that the record of an order has, or will have.
func OrderID(p *purchase.Purchase) string {
	id, _ := pool.Hash(p.ID)
	return p.Order + "." + string(id)
}

var orderForm = regexp.MustCompile(`^[A-Za-z0-9]{1,64}\.[0-9a-f]{32}$`)

// IsOrder reports whether id has the form of a record's ID. Store.Task finds no record for such an id.
func IsOrder(id string) bool { return orderForm.MatchString(id) }

// How is the way in which an order ended.
type How string

// The ways in which an order can end.
const (
	Solved    How = "solved"    // the order's token was added to the stock
	Discarded How = "discarded" // the order's token had expired
	Failed    How = "failed"    // the service failed or timed out, or its token was one that it had sold before
	Refused   How = "refused"   // the service refused the submission, and nothing was bought
	Lost      How = "lost"      // the deadline passed without a result
)

// Status groups records for queries.
type Status string

// The statuses of orders. No record has the status StatusPolling: an order in flight is in the journal of package pool.
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
