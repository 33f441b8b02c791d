package httpapi

import (
	"context"
	"errors"
	"net/http"

	"poold/internal/httpapi/kernel"
	"poold/internal/purchase"
)

// CallbackTaker processes the callbacks of providers. *purchase.Buyer is a CallbackTaker.
type CallbackTaker interface {
	// Callback returns purchase.ErrNotKept if the provider should try again.
	Callback(ctx context.Context, c purchase.Callback) error
}

type callbacks struct{ buyer CallbackTaker }

// receive is GET and POST /callback/{provider}/{order}/{secret}: a solving service reports the end
// of a task. The response is 200 even for an invalid callback. A service would only repeat a
// refused callback, and an attacker that guesses addresses must not learn anything. The response is
// 503 if the service should try again. A daemon that is stopping still accepts callbacks.
func (b *callbacks) receive(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	body, err := kernel.ReadBody(r, c.W.ResponseWriter, kernel.MaxBody)
	refused := (*kernel.Problem)(nil)
	oversized := errors.As(err, &refused) && refused.Code == kernel.CodeTooLarge
	if err != nil && !oversized {
		return err // the body is incomplete: the service must send it again
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
