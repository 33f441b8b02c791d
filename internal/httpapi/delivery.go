package httpapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/listener"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/solve"
	"poold/internal/strictjson"
	"poold/internal/targets"
)

// Row returns what the audit needs to know of a caller, for package pool; "" = no audit is kept. If buys is true, a
// token for which the caller waits is bought for it.
func (s *Server) Row(c *Context, image string, buys bool) string {
	if !s.Audit {
		return ""
	}
	ask := history.Ask{Key: c.Caller.AuditName(), Target: purchase.GuestTarget, Image: image, Buys: buys}
	if c.Target != nil {
		ask.Target = c.Target.Name
	}
	return ask.Row()
}

// ImageOf returns a text that identifies the picture of a solve: its hash and size; "" = the solve
// has no picture.
func ImageOf(asked *targets.SolveRequest) string {
	if asked.Image == nil {
		return ""
	}
	return fmt.Sprintf("sha256:%s, %d bytes", asked.Identity.Picture.SHA256, len(asked.Image))
}

// ofTarget returns the request of a caller for a token of a target. Its call lacks a name and a wait. If buys is
// true, a token for which the caller waits is bought for it.
func (s *Server) ofTarget(c *Context, t *targets.Target, image string, buys bool) solve.Request {
	call := CallFor(t)
	call.Row, call.Budget = s.Row(c, image, buys), c.Caller.limits()
	return solve.Request{Call: &call, Out: func(ctx context.Context) bool { return s.IsOut(ctx, t, true) }}
}

// ofGuest returns the request of a caller for a token of a guest: an identity without a target. Its call lacks a name.
func (s *Server) ofGuest(c *Context, asked targets.SolveRequest) solve.Request {
	set := c.Access.Set
	lifetime, margin := set.Life(asked.Identity.Type)
	spec := &solve.Spec{
		Target: purchase.GuestTarget, Owner: set.Solve.Owner, Identity: asked.Identity, ID: pool.Guest(asked.Identity.ID()),
		Guest: true, Image: asked.Image, Margin: margin, Horizon: margin, Lifetime: lifetime,
		Policy: string(set.ProvidersPolicy), Urgent: true,
		Budgets: refill.Budgets(set, pool.ScopeSolve, set.Solve.Budget, set.Solve.Owner),
	}
	for _, key := range set.Server.Keys { // the token may be for another caller than the one who asks
		spec.Priced = spec.Priced || key.Budget != (targets.Money{}) && slices.Contains(key.Scopes, targets.ScopeSolve)
	}
	call := pool.Call{
		ID: spec.ID, Margin: margin, MostTickets: solve.MostWaiting, Wait: asked.Timeout,
		Row: s.Row(c, ImageOf(&asked), true), Budget: c.Caller.limits(),
	}
	return solve.Request{Caller: c.Caller.StableName, Call: &call, Guest: spec, Rate: pool.Rate(set.Solve.Rate)}
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

// tokenAnswer is the JSON of a response with a token.
type tokenAnswer struct {
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
	Extra     map[string]string `json:"extra,omitempty"` // the further members of the service's solution
}

// Deliver sends a token: as text if the caller prefers text, otherwise as JSON.
func (s *Server) Deliver(c *Context, t *Handout) error {
	if c.Ctx().Err() != nil {
		s.ReturnToken(t)
		return ErrHungUp
	}
	token := t.Token
	if c.Prefers(echo.MIMETextPlain) {
		return s.Send(c, t, echo.MIMETextPlainCharsetUTF8, []byte(token.Value))
	}
	a := tokenAnswer{
		ID: t.ID, Type: t.Kind, Token: token.Value, Solution: t.Solution, Source: token.Source, Provider: token.Provider,
		SolvedAt: history.Time{Time: token.Born}, ExpiresAt: history.Time{Time: token.Dies}, TTL: token.TTL.Milliseconds(),
		Extra: token.Extra.Members(),
	}
	a.UserAgent = a.Extra["userAgent"]
	delete(a.Extra, "userAgent")
	if c.Target != nil {
		a.Target = c.Target.Name
	}
	return s.Send(c, t, echo.MIMEApplicationJSON, append(strictjson.Encode(a), '\n'))
}

// Send writes a complete response with a token. Send waits until the operating system has accepted
// all bytes, because an error after the return of the handler would be lost.
func (s *Server) Send(c *Context, t *Handout, contentType string, body []byte) error {
	before := sentBytes(c.Ctx())
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	err := c.Blob(http.StatusOK, contentType, body)
	if err == nil {
		err = http.NewResponseController(c.Response().Writer).Flush()
	}
	switch {
	case err == nil:
		s.Arrived(c, t)
		return nil
	case before >= 0 && sentBytes(c.Ctx()) == before: // uncounted bytes may have left, and no token is handed out twice
		s.ReturnToken(t)
	default:
		s.noteShared(c.Ctx(), t) // a part of the response was sent
	}
	return ErrHungUp
}

// Arrived counts a token that reached its caller.
func (s *Server) Arrived(c *Context, t *Handout) {
	s.noteShared(c.Ctx(), t)
	if token := t.Token; token.Source != pool.FromReplay { // a replay repeats a counted hand-out
		age := token.Dies.Add(-token.TTL).Sub(token.Born) // all by Redis' clock
		s.Metrics.age.WithLabelValues().Observe(max(0, age.Seconds()))
		s.Metrics.wait.WithLabelValues().Observe(time.Since(c.Began).Seconds())
	}
}

func (s *Server) noteShared(ctx context.Context, t *Handout) {
	if !t.Shared || t.Call.Row == "" {
		return
	}
	if err := s.Pool.Shared(context.WithoutCancel(ctx), t.Token, t.Call.Row); err != nil {
		s.Log.Warn("the audit lacks the hand-out of a shared token", "order", t.Token.Order, "err", err)
	}
}

// ReturnToken puts a token that reached no caller back into the stock, without blocking. A caller that can request the
// token again owns it.
func (s *Server) ReturnToken(t *Handout) {
	if !t.Shared && t.Call.Fingerprint == "" && !t.Call.Task {
		s.Pool.Cancel(t.Call)
	}
}

// Look returns the counts of a target. Concurrent calls for a target share the result.
func (s *Server) Look(ctx context.Context, t *targets.Target) (pool.Counts, error) {
	counts, err, _ := s.looks.Do(string(t.ID), func() (any, error) {
		return s.Pool.Look(context.WithoutCancel(ctx), pool.Query{ID: t.ID, Margin: t.Margin})
	})
	return counts.(pool.Counts), err
}

// IsHeld reports whether an operator must act before another order is placed for a target.
func (s *Server) IsHeld(ctx context.Context, t *targets.Target) bool {
	c, err := s.Look(ctx, t)
	return err == nil && isHeld(refill.StatusOf(t, &c))
}

func isHeld(now refill.Status) bool { return now.State == refill.Refused || now.State == refill.Paused }

// IsOut reports whether a target has neither tokens nor orders, and nothing can be bought for it now, so that no
// caller waits for a token that cannot be bought. The reason is a pause, a refusal or a budget, or with outages an
// outage.
func (s *Server) IsOut(ctx context.Context, t *targets.Target, outages bool) bool {
	c, err := s.Look(ctx, t)
	if err != nil || c.Fresh+c.Orders > 0 {
		return false
	}
	now := refill.StatusOf(t, &c)
	stopped := isHeld(now) || now.State == refill.Budget && c.At.Before(now.Until)
	if stopped || !outages {
		return stopped
	}
	_, _, isOutage := s.Status.Outage(ctx)
	return isOutage
}

type connKey struct{}

// connContext adds a connection of a listener.Port to the context of the connection's requests.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, connKey{}, conn)
}

// known says that the request's connection has a caller with a right key.
func known(ctx context.Context) {
	if conn, ok := ctx.Value(connKey{}).(*listener.Conn); ok {
		conn.Known()
	}
}

// sentBytes returns the number of bytes that were written to the request's connection so far; -1 = the bytes are not
// counted.
func sentBytes(ctx context.Context) int64 {
	conn, ok := ctx.Value(connKey{}).(*listener.Conn)
	if !ok {
		return -1
	}
	return conn.Written()
}
