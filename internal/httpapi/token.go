package httpapi

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/solve"
	"poold/internal/targets"
)

const (
	// maxWait is the longest wait that a caller can request with the query parameter wait.
	maxWait = 60 * time.Second
	// defaultWait is how long a caller waits by default for a token of a target with `on_empty: wait`.
	defaultWait = 20 * time.Second
)

// take is GET and POST /pool/{target}/token.
func (s *Server) take(c *Context) error {
	if s.stopping.Load() {
		return pool.ErrClosed
	}
	call, buys, err := readCall(c)
	if err != nil {
		return err
	}
	call.Row, call.Budget = s.Row(c, "", buys), c.Caller.limits()
	signer, err := s.IDs.Signer(c.Ctx())
	if err != nil {
		return err
	}
	if buys && s.NeedsOperator(c.Ctx(), c.Target) {
		call.Wait = 0
	}
	take := s.Solver.Await
	if buys {
		take = s.Solver.Take
	}
	out := func(ctx context.Context) bool { return s.IsOut(ctx, c.Target, buys) }
	token, err := take(c.Ctx(), solve.Request{Call: &call, Out: out})
	if err != nil {
		return err
	}
	delivery := Delivery{Token: &token, Call: &call, ID: signer.ID(token.Order, c.Caller.StableName),
		Type: c.Target.Identity.Type}
	if err := s.recheck(c); err != nil {
		s.ReturnToken(&delivery)
		return err
	}
	return s.Deliver(c, &delivery)
}

// readCall converts query and headers to a call. The second result is true if `on_empty: solve` applies, so that a
// token is bought for a caller that has to wait.
func readCall(c *Context) (call pool.Call, buys bool, err error) {
	t := c.Target
	call = CallFor(t)
	call.Wait = -1 // not given
	if err := c.ReadQuery(duration("wait", maxWait, &call.Wait),
		duration("min_ttl", t.Lifetime, &call.MinTTL)); err != nil {
		return call, false, err
	}
	switch {
	case call.Wait >= 0:
	case t.OnEmpty == targets.OnEmptyWait:
		call.Wait = defaultWait
	case t.OnEmpty == targets.OnEmptySolve && c.Caller.May(targets.ScopeSolve):
		call.Wait, buys = maxWait, true
	default:
		call.Wait = 0
	}
	key, err := idempotencyKey(c.Request().Header)
	caller := c.Caller.StableName
	if key != "" {
		caller += string(t.ID) // at another target the key is another one
	}
	solve.Identify(&call, caller, key)
	return call, buys, err
}

// Row returns the row of a call for the audit, without what package pool adds; "" = no audit is kept. If buys is true
// and the caller has to wait, a token is bought for this caller.
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

var printable = regexp.MustCompile(`^[ -~]{1,255}$`)

// idempotencyKey returns the request's Idempotency-Key; "" = it has none.
func idempotencyKey(h http.Header) (string, error) {
	switch values := h["Idempotency-Key"]; {
	case len(values) == 0:
		return "", nil
	case len(values) == 1 && printable.MatchString(values[0]):
		return values[0], nil
	}
	return "", NewProblem(CodeBadRequest, "Idempotency-Key must be given once, with 1 to 255 printable ASCII characters")
}
