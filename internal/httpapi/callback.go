package httpapi

import (
	"context"
	"errors"
	"net/http"

	"poold/internal/purchase"
)

// CallbackTaker is told what a provider says of a task; *purchase.Buyer implements it.
type CallbackTaker interface {
	// Callback fails with purchase.ErrNotKept where the provider should try again.
	Callback(ctx context.Context, c purchase.Callback) error
}

// callbacks is the route that the solving services call.
type callbacks struct{ buyer CallbackTaker }

// arrive is GET and POST /callback/{provider}/{order}/{secret}: a provider's word on the
// end of a task. Whatever is wrong with it, the answer is 200, because a service would
// only send it again, and one that guesses learns nothing; it is 503 where a later try
// is wanted. A daemon that stops takes it too.
func (b *callbacks) arrive(w http.ResponseWriter, r *http.Request, c *call) error {
	body, err := readBody(r, c.w.ResponseWriter)
	refused := (*Problem)(nil)
	oversized := errors.As(err, &refused) && refused.Code == codeTooLarge
	if err != nil && !oversized {
		return err // half of it: who sent it must not take it for delivered
	}
	err = b.buyer.Callback(r.Context(), purchase.Callback{
		Provider: c.param(r, 0), Order: c.param(r, 1), Secret: c.param(r, 2),
		Query: r.URL.Query(), ContentType: r.Header.Get("Content-Type"), Body: body, Oversized: oversized, At: c.began,
	})
	if err != nil {
		return err
	}
	respond(w, typeText[0], nil)
	return nil
}
