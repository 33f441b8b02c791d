package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// Returner takes back tokens that nobody received.
type Returner interface {
	Return(t pool.Token) error
}

// Counts counts what becomes of tokens; *httpapi.Metrics implements it.
type Counts interface {
	HandedOut(target string, token *pool.Token, waited time.Duration)
	Reported(target, outcome string, age time.Duration)
}

// deliveries brings tokens to their callers, and back where that is certain to have
// reached nobody.
type deliveries struct {
	returns Returner
	audit   audit
	metrics Counts
	log     *slog.Logger
}

// delivery is a token on its way to its caller.
type delivery struct {
	token *pool.Token
	id    string       // of the token, as the answer gives it
	kind  captcha.Type // what it is for
	image string       // the picture that it was solved for, as history.Entry has it
	// repeatable: its caller can ask for it again, so that it is the caller's whether it
	// arrives or not. shared: others have it too.
	repeatable, shared bool
}

// deliver writes the answer with a token.
func (d *deliveries) deliver(w http.ResponseWriter, r *http.Request, c *call, t *delivery, contentType []string, body []byte) error {
	before := markSent(r.Context())
	err := writeToken(w, contentType, body)
	if err != nil && before.nothingSince() {
		d.giveBack(r.Context(), c, t)
		return errHungUp
	}
	d.audit.taken(c, t)
	if err != nil {
		return errHungUp // with a part of the answer
	}
	d.metrics.HandedOut(c.named(), t.token, time.Since(c.began))
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

// giveBack returns a token that nobody received to the stock, which holds up nobody for
// it, unless it is somebody's all the same.
func (d *deliveries) giveBack(ctx context.Context, c *call, t *delivery) {
	switch {
	case t.repeatable:
		d.audit.taken(c, t)
		return
	case t.shared:
		return
	}
	if err := d.returns.Return(*t.token); err != nil {
		d.log.WarnContext(ctx, "returning a token that nobody received", slog.String("target", c.named()), slog.Any("err", err))
	}
}
