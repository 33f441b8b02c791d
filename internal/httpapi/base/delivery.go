package base

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/pool/tokenid"
	"poold/internal/purchase"
	"poold/internal/solve"
	"poold/internal/targets"
)

// Pool is what replicas share in Redis; *pool.Pool implements it.
type Pool interface {
	Look(ctx context.Context, q pool.Query) (pool.Counts, error)
	// Cancel takes back the token of a call whose answer did not leave. It does not block.
	Cancel(c *pool.Call)
	// Shared notes who shared a token.
	Shared(ctx context.Context, t *pool.Token, row string) error
	Report(ctx context.Context, order string, hash captcha.ID, accepted bool, caller, nonce, row string) (pool.Outcome, pool.Sale, error)
}

// Counts counts hand-outs and reports; *httpapi.Metrics implements it.
type Counts interface {
	HandedOut(token *pool.Token, waited time.Duration)
	Reported(accepted bool, age time.Duration)
}

// Delivery sends tokens to their callers, and takes the callers' reports. A token that certainly
// reached no caller returns to the stock. Use NewDelivery.
type Delivery struct {
	Pool    Pool
	IDs     *tokenid.Secret
	Buyer   ReportSender
	Audit   bool                                                                // an audit is kept
	Outage  func(ctx context.Context) (reason string, until time.Time, is bool) // see status.Collector.Outage
	Metrics Counts
	Log     *slog.Logger

	unknown Tries // reports about unknown tokens, by Caller.StableName
	looks   singleflight.Group
}

// NewDelivery completes a Delivery and returns it.
func NewDelivery(d *Delivery) *Delivery {
	d.unknown = NewTries(triesAMinute, RetryWrong)
	return d
}

// Row returns what the audit needs to know of a caller, for package pool; "" = no audit is kept. If buys is true, a
// token for which the caller waits is bought for it.
func (d *Delivery) Row(c *Context, image string, buys bool) string {
	if !d.Audit {
		return ""
	}
	return history.Ask{Key: c.Caller.AuditName(), Target: c.TargetName(), Image: image, Buys: buys}.Row()
}

// ImageOf returns a text that identifies the picture of a solve: its hash and size; "" = the solve
// has no picture.
func ImageOf(asked *targets.SolveRequest) string {
	if asked.Image == nil {
		return ""
	}
	return fmt.Sprintf("sha256:%s, %d bytes", asked.Identity.Picture.SHA256, len(asked.Image))
}

// GuestOf returns the call and the order of a guest: an identity without a target.
func GuestOf(set *targets.Set, asked targets.SolveRequest) (pool.Call, *solve.Spec, pool.Rate) {
	lifetime, margin := set.Life(asked.Identity.Type)
	spec := &solve.Spec{
		Target: purchase.GuestTarget, Owner: set.Solve.Owner, Identity: asked.Identity, ID: pool.Guest(asked.Identity.ID()),
		Guest: true, Image: asked.Image, Margin: margin, Horizon: margin, Lifetime: lifetime,
		Policy: string(set.ProvidersPolicy), Urgent: true,
	}
	spec.Budgets = slices.DeleteFunc([]pool.Budget{
		{Scope: pool.ScopeSolve, PerHour: set.Solve.Budget.PerHour, PerDay: set.Solve.Budget.PerDay},
		{Scope: pool.ScopeAll, PerHour: set.Budget.PerHour, PerDay: set.Budget.PerDay},
	}, func(b pool.Budget) bool { return b.PerHour == 0 && b.PerDay == 0 })
	var rate pool.Rate
	rate.Count, rate.Per = wholeRate(set.Solve.Rate)
	return pool.Call{ID: spec.ID, Margin: margin, MostTickets: solve.MostWaiting, Wait: asked.Timeout}, spec, rate
}

// Handout is a token that is being sent to its caller.
type Handout struct {
	Token    *pool.Token
	Call     *pool.Call        // that took the token
	ID       string            // id of the token in the response
	Kind     captcha.Type      // type of the captcha
	Solution map[string]string // the named values of the token; nil = the response has no named values
	Shared   bool              // other callers may get the token too: the take itself has no row for the audit
}

// answer is the JSON of a response with a token.
type answer struct {
	ID        string            `json:"id"`
	Target    string            `json:"target,omitempty"` // absent if no target has the identity
	Type      captcha.Type      `json:"type"`
	Token     string            `json:"token"`
	Solution  map[string]string `json:"solution,omitempty"`
	Source    pool.Source       `json:"source"`
	Provider  string            `json:"provider"`
	SolvedAt  history.Time      `json:"solved_at"`
	ExpiresAt history.Time      `json:"expires_at"`
	TTL       int64             `json:"ttl_ms"`
	UserAgent string            `json:"user_agent,omitempty"`
}

// Deliver sends a token: as text if the caller prefers text, otherwise as JSON.
func (d *Delivery) Deliver(c *Context, t *Handout) error {
	if c.Ctx().Err() != nil {
		d.ReturnToken(t)
		return ErrHungUp
	}
	token := t.Token
	if c.Prefers(echo.MIMETextPlain) {
		return d.Send(c, t, echo.MIMETextPlainCharsetUTF8, []byte(token.Value))
	}
	a := answer{
		ID: t.ID, Type: t.Kind, Token: token.Value, Solution: t.Solution, Source: token.Source, Provider: token.Provider,
		SolvedAt: history.Time{Time: token.Born}, ExpiresAt: history.Time{Time: token.Dies}, TTL: token.TTL.Milliseconds(), UserAgent: token.UserAgent,
	}
	if c.Target != nil {
		a.Target = c.Target.Name
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(a) // texts, numbers and times can always be encoded
	return d.Send(c, t, echo.MIMEApplicationJSON, body.Bytes())
}

// Send writes a complete response with a token. Send waits until the operating system has accepted
// all bytes, because an error after the return of the handler would be lost.
func (d *Delivery) Send(c *Context, t *Handout, contentType string, body []byte) error {
	before := markSent(c.Ctx())
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	err := c.Blob(http.StatusOK, contentType, body)
	if err == nil {
		err = http.NewResponseController(c.Response().Writer).Flush()
	}
	switch {
	case err == nil:
		d.Arrived(c, t)
		return nil
	case before.nothingSince():
		d.ReturnToken(t)
	default:
		d.noteShared(c.Ctx(), t) // a part of the response was sent
	}
	return ErrHungUp
}

// Arrived counts a token that reached its caller.
func (d *Delivery) Arrived(c *Context, t *Handout) {
	d.noteShared(c.Ctx(), t)
	d.Metrics.HandedOut(t.Token, time.Since(c.Began))
}

func (d *Delivery) noteShared(ctx context.Context, t *Handout) {
	if !t.Shared || t.Call.Row == "" {
		return
	}
	if err := d.Pool.Shared(context.WithoutCancel(ctx), t.Token, t.Call.Row); err != nil {
		d.Log.Warn("the audit lacks the hand-out of a shared token", "order", t.Token.Order, "err", err)
	}
}

// ReturnToken puts a token that reached no caller back into the stock, without blocking. A caller that can request the
// token again owns it.
func (d *Delivery) ReturnToken(t *Handout) {
	if !t.Shared && t.Call.Fingerprint == "" && !t.Call.Task {
		d.Pool.Cancel(t.Call)
	}
}
