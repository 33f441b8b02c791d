package history

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// ErrDown is the error of a store that does not answer or cannot complete a call. The call may be repeated.
var ErrDown = errors.New("history: the store does not answer")

// Store keeps records. Its methods are safe for concurrent use. They fail with the error of ctx if that ended, else
// with an ErrDown whose text has no addresses and no credentials.
type Store interface {
	// Write adds a batch of at most MostBatch. It ignores a record whose ID exists, so that each record counts once in
	// the figures of its day. After an error any part of the batch may be written; the caller repeats the whole batch.
	Write(ctx context.Context, batch []Record) error
	// Site returns records of a sitekey.
	Site(ctx context.Context, sitekey string, q Query) (Page, error)
	// Tasks returns records of a status, StatusSolved or StatusError. For another status its error is not an ErrDown.
	Tasks(ctx context.Context, status Status, q Query) (Page, error)
	// Day returns the figures of a UTC day. It ignores the time of day.
	Day(ctx context.Context, day time.Time) (Day, error)
	// Solve returns a record, and false if there is none.
	Solve(ctx context.Context, id string) (Record, bool, error)
	// Task returns the record of a provider's task, and false if there is none. If two services use one task id, it
	// returns the record that ended or was written last.
	Task(ctx context.Context, task string) (Record, bool, error)
}

// MostBatch limits the records of a Write.
const MostBatch = 100

// Query selects records. They come newest first: by Ended and then by ID, both descending.
type Query struct {
	From, To time.Time // From <= Ended < To; zero = no limit
	Limit    int       // of the page; 1 to MostLimit
	Before   Position  // of the previous page's last record; zero = the first page
	// Targets are the targets whose records are returned; nil = all, an empty list = none.
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

// Owned is a target and its owner when its orders were placed.
type Owned struct{ Target, Owner string }

// Figures are sums over records.
type Figures struct {
	Solved    int64
	Discarded int64
	Failed    int64
	Refused   int64
	Lost      int64
	ElapsedMS int64 // the sum of the times from submit to end of solved and discarded orders
	Spent     int64 // in billionths of the currency: the sum of the known prices
	Unpriced  int64 // records with an unknown price
}

// Orders returns the number of records.
func (f Figures) Orders() int64 { return f.Solved + f.Discarded + f.Failed + f.Refused + f.Lost }

// Costs reports whether the order has a price, because the service solved it or may have. An order that timed out
// here may be solved later.
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

// PriceUnknown is the price of a token without a price in the file.
const PriceUnknown = pool.PriceUnknown

// costs returns the figures of a price.
func costs(price int64) (spent, unpriced int64) {
	if price < 0 {
		return 0, 1
	}
	return price, 0
}
