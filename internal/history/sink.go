package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrDown means that a store does not respond or cannot complete a call, which may be repeated.
var ErrDown = errors.New("history: the store does not answer")

const (
	// MostBatch is the maximum number of rows in one call of Append.
	MostBatch = 100
	// MostLimit is the maximum number of rows that one call of Find returns.
	MostLimit = 1000
)

// Sink keeps rows. Its methods are safe for concurrent use. The error is ctx's error, an ErrDown, or it describes a
// fault in the content of a row. It contains no addresses and no credentials.
type Sink interface {
	// Append stores at most MostBatch rows. A row whose ID is there already is ignored, so that each row counts once in
	// the sums of its day. After an error, some of the rows may be stored; the caller then repeats the whole batch. Rows
	// that are older than the retention are ignored. A store that no other program reads ignores KindActive.
	Append(ctx context.Context, rows []Row) error
	// Find returns rows, the newest first; rows of the same time by descending ID.
	Find(ctx context.Context, q Query) (Page, error)
	// Days returns the sums of the UTC day that contains the time.
	Days(ctx context.Context, day time.Time) ([]Sum, error)
}

// Query selects rows. Texts must be clean, see Clean.
type Query struct {
	By       By
	Value    string
	From, To time.Time // From <= At < To; zero = no limit
	Targets  []string  // nil = of all targets
	Owner    string    // "" = of all owners
	Before   Position  // the last row of the previous page; zero = the first page
	Limit    int       // 1 to MostLimit
}

// By is the field of a row by which a Query selects rows.
type By string

// The fields of a Query.
const (
	BySite   By = "sitekey" // orders
	ByStatus By = "status"  // orders; StatusSolved or StatusError
	ByID     By = "id"      // the order
	ByTask   By = "task"    // the newest order of a provider's task
	ByKey    By = "key"     // hand-outs
)

// Position is the place of a row in the sequence that Find returns.
type Position struct {
	At time.Time
	ID string
}

// Page is the result of a Find: the Text of each row.
type Page struct {
	Rows [][]byte
	More bool // older rows follow
}

// Decode reads the rows of a page: T is Order or Handout.
func Decode[T any](p Page) ([]T, error) {
	list := make([]T, len(p.Rows))
	for i, text := range p.Rows {
		if err := json.Unmarshal(text, &list[i]); err != nil {
			return nil, fmt.Errorf("history: a stored row is malformed: %w", err)
		}
	}
	return list, nil
}
