package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"poold/internal/httpapi/kernel"
	"poold/internal/purchase"
)

// DeadLetters keeps the callbacks that could not be stored; *purchase.Buyer implements
// it.
type DeadLetters interface {
	// DeadLetters returns those that can be read, with an error where some cannot.
	DeadLetters() ([]purchase.DeadLetter, error)
	// Replay tries all of them now; redisdb.ErrDown where Redis is away.
	Replay(ctx context.Context) (purchase.Replayed, error)
}

// LetterList is the answer of GET /dead-letters.
type LetterList struct {
	Letters    []purchase.DeadLetter `json:"letters"`              // never null
	Incomplete bool                  `json:"incomplete,omitempty"` // some cannot be read
}

// letters are the routes of the dead letters.
type letters struct {
	buyer  DeadLetters
	status Changes
	log    *slog.Logger
}

// list is GET /dead-letters: callbacks that could not be stored yet, at this replica,
// without their tokens.
func (l *letters) list(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	list, err := l.buyer.DeadLetters()
	if err != nil { // the buyer has logged it once; the error names files, not what is in them
		l.log.DebugContext(r.Context(), "not all dead letters can be read", slog.Any("err", err))
	}
	return kernel.RespondJSON(w, LetterList{Letters: append([]purchase.DeadLetter{}, list...), Incomplete: err != nil})
}

// replay is POST /dead-letters/replay: it tries all of them now.
func (l *letters) replay(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	replayed, err := l.buyer.Replay(r.Context())
	l.status.Changed() // also one that failed half way changed something
	kernel.AnswerWithin(w, kernel.WriteLimit)
	if err != nil {
		return err
	}
	return kernel.RespondJSON(w, replayed)
}
