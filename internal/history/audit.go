package history

import (
	"context"
	"time"
)

// Entry is one line of the audit: a key's action on a token. An entry contains neither the token's
// value nor a picture.
type Entry struct {
	ID     string    // unique ID of letters and digits
	At     time.Time // time on the replica's clock, UTC, in whole milliseconds
	Key    string    // the name of the key, or Keyless
	Action Action
	Target string // "/solve" = a guest
	Token  string // the token id in the response; it begins with the order's id
	Source string // the source in the response to a take
	Image  string // for the solve of a picture: "sha256:<hex>, <n> bytes"
	Price  int64  // price in billionths of the currency if the token was bought for this call, else 0; negative = unknown
}

// Keyless is the value of Entry.Key for a call without a key. No key has this name.
const Keyless = "-"

// Action is a key's action on a token.
type Action string

// The actions.
const (
	Taken    Action = "taken"
	Bought   Action = "bought"   // the caller took a token that was bought for this call
	Accepted Action = "accepted" // the caller reported that the site accepted the token
	Rejected Action = "rejected" // the caller reported that the site rejected the token
)

// Audit keeps entries. Its methods are safe for concurrent use, and return the same errors as the methods of Store.
//
// An Audit accepts any text. It may return U+FFFD for invalid UTF-8 and for zero bytes. It may
// shorten a text to 500 bytes.
type Audit interface {
	// WriteEntries adds a batch of at most MostBatch entries. As with Store.Write, an entry that is
	// written twice is added and counted once.
	WriteEntries(ctx context.Context, batch []Entry) error
	// Entries returns entries of a key. The times of the Query refer to Entry.At.
	Entries(ctx context.Context, key string, q Query) (Entries, error)
	// KeyDay returns the figures of each key for the UTC day that contains the time `day`.
	KeyDay(ctx context.Context, day time.Time) (map[string]KeyFigures, error)
}

// Entries is the result of a query.
type Entries struct {
	List []Entry
	More bool // older entries follow
}

// KeyFigures counts a key's entries, and sums the prices of the tokens.
type KeyFigures struct {
	HandedOut int64 // tokens that were taken or bought
	Bought    int64
	Accepted  int64
	Rejected  int64
	Spent     int64 // sum of the known prices of the bought tokens, in billionths of the currency
	Unpriced  int64 // bought tokens with an unknown price
}

// Figures returns the figures of one entry.
func (e Entry) Figures() KeyFigures {
	switch e.Action {
	case Bought:
		spent, unpriced := splitPrice(e.Price)
		return KeyFigures{HandedOut: 1, Bought: 1, Spent: spent, Unpriced: unpriced}
	case Taken:
		return KeyFigures{HandedOut: 1}
	case Accepted:
		return KeyFigures{Accepted: 1}
	default:
		return KeyFigures{Rejected: 1}
	}
}
