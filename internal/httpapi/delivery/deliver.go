package delivery

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
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

// Sender brings tokens to their callers, and back where that is certain to have
// reached nobody.
type Sender struct {
	Returns Returner
	Audit   Audit
	Metrics Counts
	Log     *slog.Logger
}

// Handout is a token on its way to its caller.
type Handout struct {
	Token *pool.Token
	ID    string       // of the token, as the answer gives it
	Kind  captcha.Type // what it is for
	Image string       // the picture that it was solved for, as history.Entry has it
	// Repeatable: its caller can ask for it again, so that it is the caller's whether it
	// arrives or not. shared: others have it too.
	Repeatable, Shared bool
}

// Deliver writes the answer with a token.
func (d *Sender) Deliver(w http.ResponseWriter, r *http.Request, c *kernel.Call, t *Handout, contentType []string, body []byte) error {
	before := markSent(r.Context())
	err := writeToken(w, contentType, body)
	if err != nil && before.nothingSince() {
		d.GiveBack(r.Context(), c, t)
		return kernel.ErrHungUp
	}
	d.Audit.Taken(c, t)
	if err != nil {
		return kernel.ErrHungUp // with a part of the answer
	}
	d.Metrics.HandedOut(c.TargetName(), t.Token, time.Since(c.Began))
	return nil
}

// writeToken writes the whole answer with a token and waits until the kernel has it,
// because an error that comes after the handler has returned is seen by nobody.
func writeToken(w http.ResponseWriter, contentType []string, body []byte) error {
	h := w.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = kernel.NoStore
	h["Vary"] = kernel.VaryAccept
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, err := w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// GiveBack returns a token that nobody received to the stock, which holds up nobody for
// it, unless it is somebody's all the same.
func (d *Sender) GiveBack(ctx context.Context, c *kernel.Call, t *Handout) {
	switch {
	case t.Repeatable:
		d.Audit.Taken(c, t)
		return
	case t.Shared:
		return
	}
	if err := d.Returns.Return(*t.Token); err != nil {
		d.Log.WarnContext(ctx, "returning a token that nobody received", slog.String("target", c.TargetName()), slog.Any("err", err))
	}
}
