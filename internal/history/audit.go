package history

import (
	"context"
	"time"
)

// Entry is one line of the audit: an action of a key on a token. It never contains the token's value or a picture.
type Entry struct {
	ID     string    // unique; letters and digits
	At     time.Time // in whole milliseconds, UTC, by the replica's clock
	Key    string    // the name of the key, or Keyless
	Action Action
	Target string // "/solve" = a guest
	Token  string // the token's id as in the answer; it begins with the order's id
	Source string // of a taken token, as in the answer
	Image  string // of a picture's solve: "sha256:<hex>, <n> bytes"
	Price  int64  // of a token bought for this call, in billionths of the currency, negative = unknown; else 0
}

// Keyless is the name of calls without a key. No key has this name.
const Keyless = "-"

// Action is an action of a key.
type Action string

// The actions.
const (
	Taken    Action = "taken"
	Bought   Action = "bought"   // taken, and bought for this call
	Accepted Action = "accepted" // reported: the site took the token
	Rejected Action = "rejected" // reported: it did not
)

// Audit keeps entries. Its methods are safe for concurrent use, and fail like the methods of Store.
//
// It accepts any text. Invalid UTF-8 and zero bytes may come back as U+FFFD, and a text may be cut after 500 bytes.
type Audit interface {
	// WriteEntries adds a batch of at most MostBatch, each entry once, like Store.Write.
	WriteEntries(ctx context.Context, batch []Entry) error
	// Entries returns entries of a key. Query's times refer to At.
	Entries(ctx context.Context, key string, q Query) (Entries, error)
	// KeyDay returns the figures of a UTC day by key. It ignores the time of day.
	KeyDay(ctx context.Context, day time.Time) (map[string]KeyFigures, error)
}

// Entries is the result of a query.
type Entries struct {
	List []Entry
	More bool // older entries follow
}

// KeyFigures are sums over entries.
type KeyFigures struct {
	HandedOut int64 // taken or bought
	Bought    int64
	Accepted  int64
	Rejected  int64
	Spent     int64 // in billionths of the currency: the sum of the known prices of those bought
	Unpriced  int64 // bought tokens with an unknown price
}

// Figures returns the figures of one entry.
func (e Entry) Figures() KeyFigures {
	switch e.Action {
	case Bought:
		spent, unpriced := costs(e.Price)
		return KeyFigures{HandedOut: 1, Bought: 1, Spent: spent, Unpriced: unpriced}
	case Taken:
		return KeyFigures{HandedOut: 1}
	case Accepted:
		return KeyFigures{Accepted: 1}
	default:
		return KeyFigures{Rejected: 1}
	}
}
