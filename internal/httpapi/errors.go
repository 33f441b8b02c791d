package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/solve"
	"poold/internal/status"
	"poold/internal/strictjson"
	"poold/internal/targets"
)

// unknownLead is the assumed lead time before the first solve.
const unknownLead = 15 * time.Second

// plainProblems contains the problems for errors without further data. The first matching row
// applies.
var plainProblems = []struct {
	err    error
	code   Code
	detail string
}{
	{pool.ErrConflict, CodeConflict, "this Idempotency-Key was used with another min_ttl; send a new one"},
	{ErrUnknownToken, CodeUnknownToken, "this caller got no token with this id from this target, or the token expired too long ago"},
	{ErrReported, CodeReported, "this token was reported already; the first report counts"},
	{purchase.ErrNotKept, CodeStoreDown, "the callback could be stored neither in redis nor on disk; send it again"}, // the buyer has logged the cause
	{pool.ErrClosed, CodeShuttingDown, "the daemon is stopping"},
	{solve.ErrStopping, CodeShuttingDown, "the daemon is stopping"},
}

// respondError writes the problem for an error of a handler or of echo.
func (s *Server) respondError(err error, inner echo.Context) {
	c := inner.(*Context)
	if c.Response().Committed || errors.Is(err, ErrHungUp) || c.Ctx().Err() != nil {
		// A caller that has closed only its sending half of the connection would take any response for
		// the real one.
		c.HungUp = true
		return
	}
	p := s.explain(c, err)
	if p.Cause != nil {
		s.Log.ErrorContext(c.Ctx(), "request failed", slog.String("request_id", c.RequestID()), slog.String("route", c.Path()), slog.Any("err", p.Cause))
	}
	if c.Target != nil {
		p.Target = c.Target.Name
	}
	c.Code, p.Request = p.Code, c.RequestID()
	if after := p.RetrySeconds(); after != "" {
		c.Response().Header().Set(echo.HeaderRetryAfter, after)
	}
	if err := c.Blob(p.Status, "application/problem+json", strictjson.Encode(p)); err != nil {
		c.HungUp = true
	}
}

// errNotFound returns the problem for an unknown path. The problem does not quote the path.
func errNotFound() *Problem {
	return NewProblem(CodeNotFound, "no route of poold has this path")
}

// explain returns the problem for an error. The cause of an unexpected error goes only to the log.
func (s *Server) explain(c *Context, err error) *Problem {
	var (
		own     *Problem
		empty   *pool.EmptyError
		rate    *pool.RateError
		invalid targets.Problems
		failed  *solve.SolveError
		outage  *solve.OutageError
		budget  *solve.BudgetError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, echo.ErrNotFound):
		return errNotFound()
	case errors.Is(err, echo.ErrMethodNotAllowed):
		return NewProblem(CodeMethod, "allowed here: "+c.Response().Header().Get(echo.HeaderAllow))
	case errors.As(err, &empty):
		return s.explainEmpty(c, empty)
	case errors.As(err, &rate):
		return NewProblem(CodeRateLimited, "the rate of this target, or of on-demand solves, is used up").RetryAfter(rate.RetryAfter)
	case errors.As(err, &failed) && failed.Refused:
		return NewProblem(CodeSolveRefused, failed.Reason)
	case errors.As(err, &failed):
		return NewProblem(CodeSolveFailed, failed.Reason)
	case errors.As(err, &outage):
		return NewProblem(CodeProviderDown, outage.Reason).RetryAfter(max(time.Until(outage.Until), Jitter(ShortRetry)))
	case errors.As(err, &budget):
		return NewProblem(CodeBudget, budget.Reason).RetryAfter(budget.RetryAfter)
	case errors.As(err, &invalid):
		return NewProblem(CodeInvalidConfig, "nothing was changed; the last good configuration stays in use").Listing(invalid)
	}
	for _, a := range plainProblems {
		if errors.Is(err, a.err) {
			return NewProblem(a.code, a.detail)
		}
	}
	if errors.Is(err, history.ErrDown) {
		return NewProblem(CodeStoreDown, historyReason(err))
	}
	if errors.Is(err, redisdb.ErrDown) || errors.Is(err, context.DeadlineExceeded) {
		return NewProblem(CodeStoreDown, redisdb.Reason(err))
	}
	p := NewProblem(CodeInternal, "an unexpected error; the daemon's log has the cause")
	p.Cause = err
	return p
}

// historyReason returns why the history cannot be read. The text of a store's error may contain
// addresses and credentials, but the error's method Reason returns neither.
func historyReason(err error) string {
	var known interface{ Reason() string }
	if errors.As(err, &known) {
		return "the history cannot be read: " + known.Reason()
	}
	return strings.TrimPrefix(err.Error(), "history: ")
}

// explainEmpty returns the problem for an empty stock. The problem contains the reason why no token
// is ready and the time until a retry.
func (s *Server) explainEmpty(c *Context, e *pool.EmptyError) *Problem {
	if c.Target == nil { // a guest; solves.explain passes on only the error for a full queue
		return NewProblem(CodePoolEmpty, "too many callers wait for this identity already").RetryAfter(Jitter(unknownLead))
	}
	counts, err := s.Look(c.Ctx(), c.Target)
	if err != nil {
		return s.explain(c, err)
	}
	note := refill.StatusOf(c.Target, &counts)
	retry := timeToLanding(&counts)
	if retry <= 0 {
		retry = Jitter(cmp.Or(note.Lead, unknownLead))
	}
	if e.Full {
		return NewProblem(CodePoolEmpty, "too many callers wait for this target already").RetryAfter(retry)
	}
	out, until, _ := s.Status.Outage(c.Ctx())
	cause := status.CauseOf(c.Target, note, &counts, out)
	switch {
	case cause.State == refill.Paused:
		return NewProblem(CodePaused, cause.Reason).RetryAfter(retry)
	case cause.State == refill.Refused:
		return NewProblem(CodeSolveRefused, cause.Reason).RetryAfter(max(retry, time.Until(note.Until)))
	case cause.State == refill.Budget:
		// Before note.Until, only an order in flight can bring a token.
		if left := time.Until(note.Until); left > 0 {
			retry = left // without jitter: an earlier retry cannot succeed
		}
		return NewProblem(CodeBudget, cause.Reason).RetryAfter(retry)
	case cause.Outage:
		return NewProblem(CodeProviderDown, cause.Reason).RetryAfter(max(retry, time.Until(until)))
	}
	detail := fmt.Sprintf("no token is ready (orders in flight: %d, pending callers: %d); ?wait=%.0fs waits for one, at most %.0fs",
		counts.Orders, counts.Waiting, defaultWait.Seconds(), maxWait.Seconds())
	if cause.Reason != "" {
		detail = cause.Reason + "; " + detail
	}
	return NewProblem(CodePoolEmpty, detail).RetryAfter(retry)
}

// timeToLanding estimates when an order lands for a caller that comes after all that wait; 0 = unknown.
func timeToLanding(c *pool.Counts) time.Duration {
	if len(c.Leads) == 0 || len(c.Ages) == 0 {
		return 0
	}
	median := slices.Sorted(slices.Values(c.Leads))[len(c.Leads)/2]
	if c.Waiting >= len(c.Ages) {
		return median
	}
	oldestFirst := slices.Sorted(slices.Values(c.Ages))
	slices.Reverse(oldestFirst)
	return max(time.Millisecond, median-oldestFirst[c.Waiting])
}
