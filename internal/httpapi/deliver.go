package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
)

// Returner takes back tokens that nobody received.
type Returner interface {
	Return(t pool.Token) error
}

// deliveries brings tokens to their callers, and back where that is certain to have
// reached nobody.
type deliveries struct {
	returns Returner
	metrics *Metrics
	log     *slog.Logger
}

// deliver writes the answer with a token. kept: it is never given back, because its
// caller will ask again, or others have it too.
func (d *deliveries) deliver(w http.ResponseWriter, r *http.Request, c *call, token *pool.Token, contentType []string, body []byte, kept bool) error {
	before := markSent(r.Context())
	if err := writeToken(w, contentType, body); err != nil {
		if before.nothingSince() {
			d.giveBack(r.Context(), c, token, kept)
		}
		return errHungUp
	}
	d.metrics.handedOut(c.named(), token, time.Since(c.began))
	return nil
}

// writeToken writes the whole answer with a token and waits until the kernel has it,
// because an error that comes after the handler has returned is seen by nobody.
func writeToken(w http.ResponseWriter, contentType []string, body []byte) error {
	h := w.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	h["Vary"] = varyAccept
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, err := w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// giveBack returns a token to the stock, which holds up nobody for it.
func (d *deliveries) giveBack(ctx context.Context, c *call, token *pool.Token, kept bool) {
	if kept {
		return
	}
	if err := d.returns.Return(*token); err != nil {
		d.log.WarnContext(ctx, "returning a token that nobody received", slog.String("target", c.named()), slog.Any("err", err))
	}
}

// named is the target of a call, or what stands for it where there is none.
func (c *call) named() string {
	if c.target == nil {
		return purchase.GuestTarget
	}
	return c.target.Name
}
