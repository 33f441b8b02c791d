package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"poold/internal/httpapi/kernel"
	"poold/internal/purchase"
)

// CallbackTaker takes what a provider sends when a task has ended; *purchase.Buyer
// implements it.
type CallbackTaker interface {
	// Callback fails with purchase.ErrNotKept where the provider should try again.
	Callback(ctx context.Context, c purchase.Callback) error
}

// callbacks is the route that the solving services call.
type callbacks struct{ buyer CallbackTaker }

// receive is GET and POST /callback/{provider}/{order}/{secret}: the solving
// service says how a task ended. The answer is 200 also where something is wrong with it:
// a service would only send it again, and somebody who guesses addresses learns nothing.
// It is 503 where a later try is wanted. A daemon that stops takes it too.
func (b *callbacks) receive(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	body, err := kernel.ReadBody(r, c.W.ResponseWriter, kernel.MaxBody)
	refused := (*kernel.Problem)(nil)
	oversized := errors.As(err, &refused) && refused.Code == kernel.CodeTooLarge
	if err != nil && !oversized {
		return err // half of it: who sent it must not take it for delivered
	}
	err = b.buyer.Callback(r.Context(), purchase.Callback{
		Provider: c.Param(r, 0), Order: c.Param(r, 1), Secret: c.Param(r, 2),
		Query: r.URL.Query(), ContentType: r.Header.Get("Content-Type"), Body: body, Oversized: oversized, At: c.Began,
	})
	if err != nil {
		return err
	}
	kernel.Respond(w, kernel.TypeText[0], nil)
	return nil
}

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
