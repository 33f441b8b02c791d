package history

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// ErrDown: the store does not answer, or does not do what it is asked. Nothing is lost.
var ErrDown = errors.New("history: the store does not answer")

// Store keeps records. Its methods may be called at once. They fail with an ErrDown
// that says why in words of our own, without addresses and credentials; where ctx has
// ended they fail with its error instead.
type Store interface {
	// Write keeps a batch of at most MostBatch. A record that is there already, by its
	// ID, stays as it is and counts once, also in the figures of its day. After an error
	// any part of the batch may have been written; it is written again as a whole.
	Write(ctx context.Context, batch []Record) error
	// Site are the records of a sitekey.
	Site(ctx context.Context, sitekey string, q Query) (Page, error)
	// Tasks are the records of a status, StatusSolved or StatusError. Another one is an
	// error that is no ErrDown.
	Tasks(ctx context.Context, status Status, q Query) (Page, error)
	// Day are the figures of a UTC day, of which only the date counts. A day of which
	// nothing is known is empty.
	Day(ctx context.Context, day time.Time) (Day, error)
	// Solve is one record; false where there is none, or no more.
	Solve(ctx context.Context, id string) (Record, bool, error)
	// Task returns the record of the provider's task, and false if there is none. Two
	// services may use one id: then it returns the record that ended or was written last.
	Task(ctx context.Context, task string) (Record, bool, error)
}

// MostBatch is how many records are written at once.
const MostBatch = 100

// Query limits what is read. Records come newest first, by Ended and then by ID, both
// descending.
type Query struct {
	From, To time.Time // From <= Ended < To; zero = no limit
	Limit    int       // so many, or all where there are fewer; 1 to MostLimit
	Before   Position  // of the last record of the page before; zero = from the newest on
	// Targets are those whose records may be seen; nil = all, an empty list = none.
	Targets []string
}

// MostLimit is the highest Query.Limit.
const MostLimit = 1000

// Position is a record's place in the order of a Query.
type Position struct {
	Ended time.Time
	ID    string
}

// Page is what a Query finds. More: there are records behind the last one.
type Page struct {
	Records []Record
	More    bool
}

// Day is what a day's records come to.
type Day struct {
	Types   map[captcha.Type]Figures
	Targets map[Owned]Figures
}

// Owned is a target and who answered for it when its orders were placed.
type Owned struct{ Target, Owner string }

// Figures sum records up.
type Figures struct {
	Solved    int64
	Discarded int64
	Failed    int64
	Refused   int64
	Lost      int64
	ElapsedMS int64 // the sum of the times from submit to end of solved and discarded orders
	Spent     int64 // in billionths of the currency: the sum of the known prices
	Unpriced  int64 // those of which the price is unknown
}

// Orders is how many records there are.
func (f Figures) Orders() int64 { return f.Solved + f.Discarded + f.Failed + f.Refused + f.Lost }

// Costs reports whether the order has a price: the service solved it, or may have. An order
// whose time was over here may be solved later.
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

// Figures of one record.
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

// PriceUnknown is the price of a token for which the file has none.
const PriceUnknown = pool.PriceUnknown

// costs is what a price adds to figures.
func costs(price int64) (spent, unpriced int64) {
	if price < 0 {
		return 0, 1
	}
	return price, 0
}
