package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
)

// Header values that never change; net/http only reads them.
var (
	typeJSON = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// Returner takes back tokens that no caller received.
type Returner interface {
	Return(t pool.Token) error
}

// Counts counts what becomes of tokens; *httpapi.Metrics implements it.
type Counts interface {
	HandedOut(target string, token *pool.Token, waited time.Duration)
	Reported(target string, accepted bool, age time.Duration)
}

// Sender brings tokens to their callers. It returns a token to the stock if the token
// certainly reached no caller.
type Sender struct {
	Returns Returner
	Audit   Audit
	Metrics Counts
	Log     *slog.Logger
}

// Handout is a token on its way to its caller.
type Handout struct {
	Token    *pool.Token
	ID       string            // of the token, as the answer gives it
	Kind     captcha.Type      // type of the captcha
	Image    string            // the picture that it was solved for, as history.Entry has it
	Solution map[string]string // the named values of the token; nil = the answer has none
	// Repeatable: the caller can ask for the token again, so the token is the caller's
	// even if this answer does not arrive.
	Repeatable bool
	Shared     bool // other callers have the token too
}

// answer is the JSON with a token.
type answer struct {
	ID        string            `json:"id"`
	Target    string            `json:"target,omitempty"` // absent if no target has the identity
	Type      captcha.Type      `json:"type"`
	Token     string            `json:"token"`
	Solution  map[string]string `json:"solution,omitempty"`
	Source    pool.Source       `json:"source"`
	Provider  string            `json:"provider"`
	SolvedAt  string            `json:"solved_at"`
	ExpiresAt string            `json:"expires_at"`
	TTL       int64             `json:"ttl_ms"`
	UserAgent string            `json:"user_agent,omitempty"`
}

// Deliver answers with a token: as text if the caller prefers that, else as JSON.
func (d *Sender) Deliver(w http.ResponseWriter, r *http.Request, c *kernel.Call, t *Handout) error {
	if r.Context().Err() != nil {
		d.GiveBack(r.Context(), c, t)
		return kernel.ErrHungUp
	}
	token := t.Token
	if kernel.Prefers(r.Header["Accept"], "text/plain") {
		return d.Send(w, r, c, t, kernel.TypeText, []byte(token.Value))
	}
	a := answer{
		ID: t.ID, Type: t.Kind, Token: token.Value, Solution: t.Solution, Source: token.Source, Provider: token.Provider,
		SolvedAt: kernel.Stamp(token.Born), ExpiresAt: kernel.Stamp(token.Dies), TTL: token.TTL.Milliseconds(), UserAgent: token.UserAgent,
	}
	if c.Target != nil {
		a.Target = c.Target.Name
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(a); err != nil {
		d.GiveBack(r.Context(), c, t)
		return fmt.Errorf("encoding the answer: %w", err)
	}
	return d.Send(w, r, c, t, typeJSON, body.Bytes())
}

// Send writes the whole answer with a token. It waits until the operating system has the
// answer, because an error after the handler has returned would be lost.
func (d *Sender) Send(w http.ResponseWriter, r *http.Request, c *kernel.Call, t *Handout, contentType []string, body []byte) error {
	before := markSent(r.Context())
	h := w.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	h["Vary"] = kernel.VaryAccept
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, err := w.Write(body)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	switch {
	case err == nil:
		d.Arrived(c, t)
		return nil
	case before.nothingSince():
		d.GiveBack(r.Context(), c, t)
	default:
		d.Audit.Taken(c, t) // a part of the answer is out
	}
	return kernel.ErrHungUp
}

// Arrived counts and notes a token that its caller has.
func (d *Sender) Arrived(c *kernel.Call, t *Handout) {
	d.Audit.Taken(c, t)
	d.Metrics.HandedOut(c.TargetName(), t.Token, time.Since(c.Began))
}

// GiveBack returns a token that reached no caller to the stock, without blocking. A
// repeatable or shared token is not returned.
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
