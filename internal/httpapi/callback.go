package httpapi

import (
	"context"
	"errors"
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
