package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/status"
	"poold/internal/targets"
)

const (
	// unknownLead stands for a lead time that is not known yet.
	unknownLead = 15 * time.Second
)

// explainer turns what went wrong into the answer for it.
type explainer struct {
	refill  Notes
	outages Outages
}

// answers are those to errors that say all there is to know. The first that fits
// counts.
var answers = []struct {
	err    error
	code   code
	detail string
}{
	{pool.ErrConflict, codeConflict, "this Idempotency-Key was used with another min_ttl"},
	{pool.ErrUnknownToken, codeUnknownToken, "this caller was not given a token of this id for this target, or it died too long ago"},
	{pool.ErrReported, codeReported, "a token is reported once, and this one was"},
	{pool.ErrWindows, codeWindows, `the target has as many warm windows made by POST as it may have; {"tokens":0} ends all of them`},
	{purchase.ErrNotKept, codeStoreDown, "neither redis nor the disk took the callback"}, // the buyer has logged why
	{pool.ErrClosed, codeShuttingDown, "the daemon is stopping"},
}

// explain returns the answer for an error. What nobody expected is for the log alone.
func (x *explainer) explain(ctx context.Context, c *call, err error) *Problem {
	var (
		own     *Problem
		empty   *pool.EmptyError
		rate    *pool.RateError
		invalid targets.Problems
		solve   *ondemand.SolveError
		outage  *ondemand.OutageError
		budget  *ondemand.BudgetError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &empty):
		return x.explainEmpty(ctx, c, empty)
	case errors.As(err, &rate):
		return problem(codeRateLimited, "the rate of what is asked for is used up").after(rate.RetryAfter)
	case errors.As(err, &solve) && solve.Refused:
		return problem(codeSolveRefused, solve.Reason)
	case errors.As(err, &solve):
		return problem(codeSolveFailed, solve.Reason)
	case errors.As(err, &outage):
		return problem(codeProviderDown, outage.Reason).after(max(time.Until(outage.Until), jitter(soon)))
	case errors.As(err, &budget):
		return problem(codeBudget, budget.Reason).after(budget.RetryAfter)
	case errors.As(err, &invalid):
		return problem(codeInvalidConfig, "nothing was changed; the last good configuration stays in use").listing(invalid)
	}
	for _, a := range answers {
		if !errors.Is(err, a.err) {
			continue
		}
		p := problem(a.code, a.detail)
		if p.Status == http.StatusServiceUnavailable {
			p.retry = jitter(soon)
		}
		return p
	}
	if errors.Is(err, history.ErrDown) {
		return problem(codeStoreDown, historyReason(err)).after(jitter(soon))
	}
	if errors.Is(err, redisdb.ErrDown) || errors.Is(err, context.DeadlineExceeded) {
		return problem(codeStoreDown, redisdb.Reason(err)).after(jitter(soon))
	}
	p := problem(codeInternal, "the daemon's log says more")
	p.cause = err
	return p
}

// historyReason says why the history cannot be read. What a store fails with holds neither
// addresses nor credentials, at least not in what it says by a method Reason.
func historyReason(err error) string {
	var known interface{ Reason() string }
	if errors.As(err, &known) {
		return "the history cannot be read: " + known.Reason()
	}
	return strings.TrimPrefix(err.Error(), "history: ")
}

// explainEmpty says why there is no token and when there may be one.
func (x *explainer) explainEmpty(ctx context.Context, c *call, e *pool.EmptyError) *Problem {
	if c.target == nil { // of /solve, where an empty stock is no reason
		return problem(codePoolEmpty, "too many callers are waiting already").after(jitter(unknownLead))
	}
	note, known := x.refill.Current(ctx, c.target.Name)
	if !known {
		note = status.Starting
	}
	retry := e.RetryAfter
	if retry <= 0 {
		retry = jitter(cmp.Or(note.Lead, unknownLead))
	}
	if e.Full {
		return problem(codePoolEmpty, "too many callers are waiting for this target already").after(retry)
	}
	out, until, _ := x.outages.Outage(ctx)
	cause := status.CauseOf(c.target.Target, note, &pool.Stock{Paused: e.Paused, Pause: e.Pause, Orders: e.Orders, Waiting: e.Waiting}, out)
	switch {
	case cause.State == refill.Paused:
		return problem(codePaused, cause.Reason).after(retry)
	case cause.State == refill.Refused:
		return problem(codeSolveRefused, cause.Reason).after(max(retry, time.Until(note.Until)))
	case cause.State == refill.Budget:
		// Only an order that is still under way can bring a token before there is room.
		if left := time.Until(note.Until); left > 0 {
			retry = left // to the second: nothing is gained by coming before
		}
		return problem(codeBudget, cause.Reason).after(retry)
	case cause.Outage:
		return problem(codeProviderDown, cause.Reason).after(max(retry, time.Until(until)))
	}
	detail := fmt.Sprintf("no token is ready (orders under way: %d, callers waiting: %d); ?wait=%.0fs waits for one, %.0fs at most",
		e.Orders, e.Waiting, defaultWait.Seconds(), maxWait.Seconds())
	if cause.Reason != "" {
		detail = cause.Reason + "; " + detail
	}
	return problem(codePoolEmpty, detail).after(retry)
}
