package history

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// ErrDown reports that a store does not respond or cannot complete a call. The caller may repeat the call.
var ErrDown = errors.New("history: the store does not answer")

// Store keeps records. Its methods are safe for concurrent use. If ctx has ended, they return its error. Otherwise they
// return an ErrDown whose text contains no addresses and no credentials.
type Store interface {
	// Write adds a batch of at most MostBatch records. It ignores a record whose ID exists, so that each record counts
	// once in the figures of its day. After an error any part of the batch may be written; the caller repeats the whole
	// batch.
	Write(ctx context.Context, batch []Record) error
	// Site returns the records with a sitekey.
	Site(ctx context.Context, sitekey string, q Query) (Page, error)
	// Tasks returns the records with a status, which must be StatusSolved or StatusError. For any other status it returns
	// an error that is not an ErrDown.
	Tasks(ctx context.Context, status Status, q Query) (Page, error)
	// Day returns the figures of a UTC day. It ignores the time of day.
	Day(ctx context.Context, day time.Time) (Day, error)
	// Solve returns the record with an ID. It returns false if there is no such record.
	Solve(ctx context.Context, id string) (Record, bool, error)
	// Task returns the record of a provider's task. It returns false if there is no such record. If two services use the
	// same task id, it returns the record that ended last or the record that was written last.
	Task(ctx context.Context, task string) (Record, bool, error)
}

// MostBatch limits the number of records in a call of Write.
const MostBatch = 100

// Query selects records. The result is sorted by Ended and then by ID, both descending.
type Query struct {
	From, To time.Time // selects records with From <= Ended < To; zero = no limit
	Limit    int       // maximum number of records on the page, from 1 to MostLimit
	Before   Position  // position of the last record on the previous page; zero = the first page
	// Targets lists the targets whose records are returned. A nil list selects all targets, an empty list none.
	Targets []string
}

// MostLimit is the highest Query.Limit.
const MostLimit = 1000

// Position is a record's place in the order of a Query.
type Position struct {
	Ended time.Time
	ID    string
}

// Page is the result of a Query.
type Page struct {
	Records []Record
	More    bool // older records follow
}

// Day has the figures of a day's records.
type Day struct {
	Types   map[captcha.Type]Figures
	Targets map[Owned]Figures
}

// Owned identifies a target and the owner that it had when its orders were placed.
type Owned struct{ Target, Owner string }

// Figures counts records by how their orders ended, and sums up their times and prices.
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

// Costs reports whether the order has a price: the service solved it, or may have solved it. An order that timed out at
// this replica may still be solved by the service.
func (r Record) Costs() bool {
	switch r.How {
	case Solved, Discarded, Lost:
		return true
	case Failed:
		return r.Code == pool.CodeTimeout
	case Refused:
	}
	return false
}

// Figures returns the figures of one record.
func (r Record) Figures() (f Figures) {
	if r.Costs() {
		f.Spent, f.Unpriced = costs(r.Price)
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

// PriceUnknown is the price of a token whose price is not in the configuration file.
const PriceUnknown = pool.PriceUnknown

// costs returns the figures that a price adds to. A negative price is unknown.
func costs(price int64) (spent, unpriced int64) {
	if price < 0 {
		return 0, 1
	}
	return price, 0
}
