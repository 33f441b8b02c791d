package history

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/purchase"
)

// ErrDown reports that a store does not respond or cannot complete a call. The caller may repeat the call.
var ErrDown = errors.New("history: the store does not answer")

// Store keeps records. Its methods are safe for concurrent use. If ctx has ended, a method returns the
// error of ctx. All other errors are an ErrDown. The text of an error contains no addresses and no
// credentials.
type Store interface {
	// Write adds a batch of at most MostBatch records. It ignores a record whose ID is already in the
	// store, so that each record counts once in the figures of its day. After an error any part of
	// the batch may be in the store, and the caller repeats the whole batch.
	Write(ctx context.Context, batch []Record) error
	// Site returns the records with a given sitekey.
	Site(ctx context.Context, sitekey string, q Query) (Page, error)
	// Tasks returns the records with a given status, which must be StatusSolved or StatusError. For
	// any other status it returns an error that is not an ErrDown.
	Tasks(ctx context.Context, status Status, q Query) (Page, error)
	// Day returns the figures for the UTC day that contains the time `day`.
	Day(ctx context.Context, day time.Time) (Day, error)
	// Solve returns the record with an ID. If there is no such record, Solve returns false.
	Solve(ctx context.Context, id string) (Record, bool, error)
	// Task returns the record of a provider's task. If there is no such record, Task returns false. If
	// two services use the same task id, Task returns one of two records: the one that ended last, or
	// the one that was written last.
	Task(ctx context.Context, task string) (Record, bool, error)
}

// MostBatch limits the number of records in a call of Write.
const MostBatch = 100

// Query selects records. The result is sorted by Ended and then by ID, both descending.
type Query struct {
	From, To time.Time // selects records with From <= Ended < To; zero = no limit
	Limit    int       // maximum number of records on the page, from 1 to MostLimit
	Before   Position  // position of the last record on the previous page; zero = the first page
	// Targets lists the targets whose records are returned. A nil list selects all targets, and an
	// empty list selects none.
	Targets []string
}

// MostLimit is the highest Query.Limit.
const MostLimit = 1000

// Position is the place of a record in the order of a Query.
type Position struct {
	Ended time.Time
	ID    string
}

// Page is the result of a Query.
type Page struct {
	Records []Record
	More    bool // older records follow
}

// Day contains the figures of a day's records.
type Day struct {
	Types   map[captcha.Type]Figures
	Targets map[Owned]Figures
}

// Owned identifies a target and the owner that it had when its orders were placed.
type Owned struct{ Target, Owner string }

// Figures counts records by how they ended, and sums their times and prices.
type Figures struct {
	Solved    int64
	Discarded int64
	Failed    int64
	Refused   int64
	Lost      int64
	ElapsedMS int64 // sum of the times from submission to end, over the solved and discarded orders, in ms
	Spent     int64 // sum of the known prices, in billionths of the currency
	Unpriced  int64 // records with an unknown price
}

// Orders returns the number of records that the figures count.
func (f Figures) Orders() int64 { return f.Solved + f.Discarded + f.Failed + f.Refused + f.Lost }

// Costs reports whether the order has a price. An order has a price if the service has solved the task
// or may still solve it, for example after a time-out at this replica.
func (r Record) Costs() bool {
	switch r.How {
	case Solved, Discarded, Lost:
		return true
	case Failed:
		return r.Code == purchase.CodeTimeout
	case Refused:
	}
	return false
}

// Figures returns the figures of one record.
func (r Record) Figures() (f Figures) {
	if r.Costs() {
		f.Spent, f.Unpriced = splitPrice(r.Price)
	}
	switch r.How {
	case Solved:
		f.Solved, f.ElapsedMS = 1, r.Elapsed().Milliseconds()
	case Discarded:
		f.Discarded, f.ElapsedMS = 1, r.Elapsed().Milliseconds()
	case Lost:
		f.Lost = 1
	case Refused:
		f.Refused = 1
	default:
		f.Failed = 1
	}
	return f
}

// PriceUnknown is the price of a token if the configuration file has no price.
const PriceUnknown = -1

// splitPrice returns the amounts that a price adds to the figures Spent and Unpriced. A negative
// price is unknown.
func splitPrice(price int64) (spent, unpriced int64) {
	if price < 0 {
		return 0, 1
	}
	return price, 0
}
