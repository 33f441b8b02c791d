package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/solve"
	"poold/internal/status"
	"poold/internal/targets"
)

const (
	// unknownLead is the assumed lead time before the first solve.
	unknownLead = 15 * time.Second
)

// plainProblems contains the problems for errors without further data. The first matching row
// applies.
var plainProblems = []struct {
	err    error
	code   kernel.Code
	detail string
}{
	{pool.ErrConflict, kernel.CodeConflict, "this Idempotency-Key was used with another min_ttl; send a new one"},
	{delivery.ErrUnknownToken, kernel.CodeUnknownToken, "this caller got no token with this id from this target, or the token expired too long ago"},
	{delivery.ErrReported, kernel.CodeReported, "this token was reported already; the first report counts"},
	{purchase.ErrNotKept, kernel.CodeStoreDown, "the callback could be stored neither in redis nor on disk; send it again"}, // the buyer has logged the cause
	{pool.ErrClosed, kernel.CodeShuttingDown, "the daemon is stopping"},
	{solve.ErrStopping, kernel.CodeShuttingDown, "the daemon is stopping"},
}

// explain returns the problem for an error. The cause of an unexpected error goes only to the log.
func (s *Server) explain(ctx context.Context, c *kernel.Call, err error) *kernel.Problem {
	var (
		own     *kernel.Problem
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
	case errors.As(err, &empty):
		return s.explainEmpty(ctx, c, empty)
	case errors.As(err, &rate):
		return kernel.NewProblem(kernel.CodeRateLimited, "the rate of this target, or of on-demand solves, is used up").RetryAfter(rate.RetryAfter)
	case errors.As(err, &failed) && failed.Refused:
		return kernel.NewProblem(kernel.CodeSolveRefused, failed.Reason)
	case errors.As(err, &failed):
		return kernel.NewProblem(kernel.CodeSolveFailed, failed.Reason)
	case errors.As(err, &outage):
		return kernel.NewProblem(kernel.CodeProviderDown, outage.Reason).RetryAfter(max(time.Until(outage.Until), kernel.Jitter(kernel.ShortRetry)))
	case errors.As(err, &budget):
		return kernel.NewProblem(kernel.CodeBudget, budget.Reason).RetryAfter(budget.RetryAfter)
	case errors.As(err, &invalid):
		return kernel.NewProblem(kernel.CodeInvalidConfig, "nothing was changed; the last good configuration stays in use").Listing(invalid)
	}
	for _, a := range plainProblems {
		if !errors.Is(err, a.err) {
			continue
		}
		p := kernel.NewProblem(a.code, a.detail)
		if p.Status == http.StatusServiceUnavailable {
			return p.RetrySoon()
		}
		return p
	}
	if errors.Is(err, history.ErrDown) {
		return kernel.NewProblem(kernel.CodeStoreDown, historyReason(err)).RetrySoon()
	}
	if errors.Is(err, redisdb.ErrDown) || errors.Is(err, context.DeadlineExceeded) {
		return kernel.NewProblem(kernel.CodeStoreDown, redisdb.Reason(err)).RetrySoon()
	}
	p := kernel.NewProblem(kernel.CodeInternal, "an unexpected error; the daemon's log has the cause")
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
func (s *Server) explainEmpty(ctx context.Context, c *kernel.Call, e *pool.EmptyError) *kernel.Problem {
	if c.Target == nil { // a guest; solves.explain passes on only the error for a full queue
		return kernel.NewProblem(kernel.CodePoolEmpty, "too many callers wait for this identity already").RetryAfter(kernel.Jitter(unknownLead))
	}
	counts, err := c.Target.Counts(ctx, s.pool)
	if err != nil {
		return s.explain(ctx, c, err)
	}
	note := refill.StatusOf(c.Target.Target, &counts)
	retry := timeToLanding(&counts)
	if retry <= 0 {
		retry = kernel.Jitter(cmp.Or(note.Lead, unknownLead))
	}
	if e.Full {
		return kernel.NewProblem(kernel.CodePoolEmpty, "too many callers wait for this target already").RetryAfter(retry)
	}
	out, until, _ := s.status.Outage(ctx)
	cause := status.CauseOf(c.Target.Target, note, &counts, out)
	switch {
	case cause.State == refill.Paused:
		return kernel.NewProblem(kernel.CodePaused, cause.Reason).RetryAfter(retry)
	case cause.State == refill.Refused:
		return kernel.NewProblem(kernel.CodeSolveRefused, cause.Reason).RetryAfter(max(retry, time.Until(note.Until)))
	case cause.State == refill.Budget:
		// Before note.Until, only an order in flight can bring a token.
		if left := time.Until(note.Until); left > 0 {
			retry = left // without jitter: an earlier retry cannot succeed
		}
		return kernel.NewProblem(kernel.CodeBudget, cause.Reason).RetryAfter(retry)
	case cause.Outage:
		return kernel.NewProblem(kernel.CodeProviderDown, cause.Reason).RetryAfter(max(retry, time.Until(until)))
	}
	detail := fmt.Sprintf("no token is ready (orders in flight: %d, pending callers: %d); ?wait=%.0fs waits for one, at most %.0fs",
		counts.Orders, counts.Waiting, defaultWait.Seconds(), maxWait.Seconds())
	if cause.Reason != "" {
		detail = cause.Reason + "; " + detail
	}
	return kernel.NewProblem(kernel.CodePoolEmpty, detail).RetryAfter(retry)
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
