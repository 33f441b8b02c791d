package history

import (
	"context"
	"time"
)

// Entry is one line of the audit: what a key did with a token. It never holds the token's
// value or a picture.
type Entry struct {
	ID     string    // unique; letters and digits
	At     time.Time // in whole milliseconds, UTC, on the replica's clock
	Key    string    // the name of the key, or Keyless
	Action Action
	Target string // "/solve" = a guest of it
	Token  string // its id, as the answer with it says; it begins with that of its order
	Source string // of a token that was taken: as its answer says
	Image  string // what its solve was for, where that is a picture: "sha256:<hex>, <n> bytes"
	Price  int64  // of a token that was bought for this call, in billionths of the currency, below 0 = unknown; else 0
}

// Keyless is what calls without a key are listed under. No key has this name.
const Keyless = "-"

// Action is what a key did.
type Action string

// The actions.
const (
	Taken    Action = "taken"
	Bought   Action = "bought"   // taken, and bought for this call
	Accepted Action = "accepted" // reported: the site took the token
	Rejected Action = "rejected" // reported: it did not
)

// Audit keeps entries. Its methods may be called at once, and fail as those of Store do.
//
// Any text is taken. Of one that is not valid UTF-8 or has a byte 0, some bytes may come
// back as U+FFFD; one of more than 500 bytes may come back without its end.
type Audit interface {
	// WriteEntries keeps a batch of at most MostBatch. An entry that is written again
	// counts once, also in the figures of its day. After an error any part of the batch
	// may have been written; it is written again as a whole.
	WriteEntries(ctx context.Context, batch []Entry) error
	// Entries are those of a key. From, To and Before are about At; Targets limits them
	// as it limits records.
	Entries(ctx context.Context, key string, q Query) (Entries, error)
	// KeyDay are the figures of a UTC day by key, of which only the date counts.
	KeyDay(ctx context.Context, day time.Time) (map[string]KeyFigures, error)
}

// Entries are what a query finds. More: there are entries behind the last one.
type Entries struct {
	List []Entry
	More bool
}

// KeyFigures sum entries up.
type KeyFigures struct {
	HandedOut int64 // taken or bought
	Bought    int64
	Accepted  int64
	Rejected  int64
	Spent     int64 // in billionths of the currency: the sum of the known prices of those bought
	Unpriced  int64 // of those bought, the price is unknown
}

// Figures of one entry.
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
