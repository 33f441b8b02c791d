package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/backoff"
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

// endlessRetry is the value of Retry-After while a target is paused without an end. It is so long that programs give
// up.
const endlessRetry = 5 * time.Minute

// plainProblems maps errors to problems. It has only errors whose problem always has the same text. The first matching
// row applies.
var plainProblems = []struct {
	err    error
	code   Code
	detail string
}{
	{pool.ErrConflict, CodeConflict,
		"this Idempotency-Key was used for another request, for example with another min_ttl; send a new one"},
	{ErrUnknownToken, CodeUnknownToken,
		"this caller got no such token here, or it expired too long ago; " +
			"a token of POST /solve is reported at /solve/ID/report"},
	{ErrReported, CodeReported,
		"this token was reported already, with another outcome or by another caller; the first report counts"},
	// the buyer has logged the cause
	{purchase.ErrNotKept, CodeStoreDown, "the callback could be stored neither in redis nor on disk; send it again"},
	{purchase.ErrUnknownProvider, CodeUnknownProvider, "the configuration file has no provider of this name"},
	{pool.ErrClosed, CodeShuttingDown, "the daemon is stopping"},
	{errNoHistory, CodeNoHistory, "no history is kept: the configuration file has `history: {backend: none}`"},
	{errNoAudit, CodeNoAudit, "no audit is kept: the configuration file has `history: {audit: 0s}`"},
}

// respondError writes the problem for an error of a handler or of echo.
func (s *Server) respondError(err error, inner echo.Context) {
	c := inner.(*Context)
	if c.Response().Committed || errors.Is(err, ErrHungUp) || c.Ctx().Err() != nil {
		// No response is sent: a caller that has closed only its sending half of the connection would read it as the answer
		// to its request.
		c.HungUp = true
		return
	}
	p := s.explain(c, err)
	if p.Cause != nil {
		s.Log.ErrorContext(c.Ctx(), "request failed", slog.String("request_id", c.RequestID()),
			slog.String("route", c.Path()), slog.Any("err", p.Cause))
	}
	if c.Target != nil {
		p.Target = c.Target.Name
	}
	c.Code, p.Request = p.Code, c.RequestID()
	if p.Retry > 0 { // whole seconds, rounded up, so that no caller retries too early
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(p.Retry.Seconds()))))
	}
	if err := c.Blob(p.Status, "application/problem+json", strictjson.Encode(p)); err != nil {
		c.HungUp = true
	}
}

// explain returns the problem for an error. The cause of an unexpected error goes only to the log.
func (s *Server) explain(c *Context, err error) *Problem {
	var (
		own     *Problem
		empty   *pool.EmptyError
		rate    *pool.RateError
		invalid targets.Problems
		failed  *pool.FailedError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, echo.ErrNotFound):
		return NewProblem(CodeNotFound, "no route of poold has this path")
	case errors.Is(err, echo.ErrMethodNotAllowed):
		return NewProblem(CodeMethod, "allowed here: "+c.Response().Header().Get(echo.HeaderAllow))
	case errors.As(err, &empty):
		return s.explainEmpty(c, empty)
	case errors.As(err, &rate):
		whose := "on-demand solves"
		if c.Target != nil {
			whose = "the target " + c.Target.Name
		}
		return NewProblem(CodeRateLimited, "the rate of "+whose+" is used up").RetryAfter(rate.RetryAfter)
	case errors.As(err, &failed) && failed.NotPlaced == pool.ReasonBudget:
		s.noteBudget(failed)
		return NewProblem(CodeBudget, failed.Reason).RetryAfter(time.Until(failed.Until))
	case errors.As(err, &failed) && failed.NotPlaced != "":
		return NewProblem(CodeProviderDown, failed.Reason).RetryAfter(max(time.Until(failed.Until), Jitter(ShortRetry)))
	case errors.As(err, &failed) && failed.BadParameters:
		return NewProblem(CodeSolveRefused, failed.Reason)
	case errors.As(err, &failed):
		return NewProblem(CodeSolveFailed, failed.Reason)
	case errors.As(err, &invalid):
		return NewProblem(CodeInvalidConfig, "nothing was changed; the last good configuration stays in use").Listing(invalid)
	}
	for _, a := range plainProblems {
		if errors.Is(err, a.err) {
			return NewProblem(a.code, a.detail)
		}
	}
	if errors.Is(err, history.ErrDown) { // its text contains no addresses and no credentials
		return NewProblem(CodeStoreDown, strings.TrimPrefix(err.Error(), "history: "))
	}
	if errors.Is(err, redisdb.ErrDown) || errors.Is(err, context.DeadlineExceeded) {
		return NewProblem(CodeStoreDown, redisdb.Reason(err))
	}
	p := NewProblem(CodeInternal, "an unexpected error; the daemon's log has the cause")
	p.Cause = err
	return p
}

// noteBudget adds an event to the list if an error says that the budget of a key has refused a take.
func (s *Server) noteBudget(err *pool.FailedError) {
	if err.Scope != "" && s.UsedUp != nil {
		s.UsedUp(err.Scope, "", err.Spent, err.Until)
	}
}

// emptyCodes maps the state of a target to the code of the problem when its stock is empty.
var emptyCodes = map[string]Code{
	refill.Paused: CodePaused, refill.Refused: CodeSolveRefused, refill.Budget: CodeBudget,
}

// explainEmpty returns the problem for an empty stock. The problem contains the reason why no token
// is ready and the time until a retry.
func (s *Server) explainEmpty(c *Context, e *pool.EmptyError) *Problem {
	late := NewProblem(CodeSolveTimeout,
		"no token came in time; the order continues: repeat the request, with the same Idempotency-Key if it had one, "+
			"to get its token")
	switch {
	case c.route.scope == targets.ScopeSolve && e.Full: // more may wait for a target with a large depth
		detail := fmt.Sprintf("%d callers or more wait, the most for this identity", solve.MostWaiting)
		return NewProblem(CodePoolEmpty, detail).RetryAfter(Jitter(status.UnknownLead))
	case c.Target == nil:
		return late
	}
	counts, err := s.Counts(c.Ctx(), c.Target)
	if err != nil {
		return s.explain(c, err)
	}
	note := refill.StatusOf(c.Target, &counts)
	retry := Jitter(cmp.Or(note.Lead, status.UnknownLead))
	if e.Full {
		detail := fmt.Sprintf("%d callers wait, the most for depth %d; raise depth", CallFor(c.Target).MostTickets,
			c.Target.Depth)
		return NewProblem(CodePoolEmpty, detail).RetryAfter(retry)
	}
	out, until, _ := s.Status.Outage(c.Ctx())
	cause := status.CauseOf(c.Target, note, &counts, out)
	code := emptyCodes[cause.State]
	switch {
	case cause.Outage:
		code = CodeProviderDown
	case code == CodePaused && note.Until.IsZero():
		until = time.Now().Add(endlessRetry)
	case c.route.scope == targets.ScopeSolve && note.State == refill.OK:
		return late
	default:
		until = note.Until
	}
	if code != "" {
		return NewProblem(code, cause.Reason).RetryAfter(max(retry, time.Until(until)))
	}
	detail := fmt.Sprintf("no token is ready (orders in flight: %d, pending callers: %d); ?wait=%.0fs waits for one",
		counts.Orders, counts.Waiting, maxWait.Seconds())
	if counts.Fresh > 0 {
		detail = fmt.Sprintf("ready tokens: %d, but earlier callers wait for them, or none has the min_ttl; ",
			counts.Fresh) + detail
	}
	if cause.Reason != "" {
		detail = cause.Reason + "; " + detail
	}
	return NewProblem(CodePoolEmpty, detail).RetryAfter(retry)
}

// Code identifies the kind of a problem for programs; docs/operating.md lists all codes. A code never
// changes.
type Code string

type meaning struct {
	status int
	title  string
}

var meanings = map[Code]meaning{}

func define(code Code, status int, title string) Code {
	meanings[code] = meaning{status, title}
	return code
}

// These are the codes of all problems.
var (
	CodeBadRequest    = define("bad_request", http.StatusBadRequest, "The request is malformed")
	CodeUnauthorized  = define("unauthorized", http.StatusUnauthorized, "A key is needed")
	CodeForbidden     = define("forbidden", http.StatusForbidden, "This caller may not do that")
	CodeUnknownTarget = define("unknown_target", http.StatusNotFound, "There is no such target")
	CodeUnknownToken  = define("unknown_token", http.StatusNotFound, "There is no such token")
	CodeUnknownOrder  = define("unknown_order", http.StatusNotFound, "There is no such order")
	CodeNoHistory     = define("no_history", http.StatusNotFound, "No history is kept")
	CodeNoAudit       = define("no_audit", http.StatusNotFound, "No audit is kept")
	CodeNotFound      = define("not_found", http.StatusNotFound, "There is no such page")
	CodeMethod        = define("method_not_allowed", http.StatusMethodNotAllowed, "The method is not allowed here")
	CodeConflict      = define("idempotency_conflict", http.StatusConflict,
		"The Idempotency-Key was used for another request")
	CodeReported      = define("already_reported", http.StatusConflict, "The token was reported before")
	CodePausedInFile  = define("paused_in_file", http.StatusConflict, "The target is paused in the configuration file")
	CodeTooLarge      = define("too_large", http.StatusRequestEntityTooLarge, "The body is too large")
	CodeMisdirected   = define("misdirected_request", http.StatusMisdirectedRequest, "The Host is not this machine")
	CodeInvalidConfig = define("invalid_config", http.StatusUnprocessableEntity, "The configuration file is not valid")
	CodeRateLimited   = define("rate_limited", http.StatusTooManyRequests, "Too many requests")
	CodeInternal      = define("internal", http.StatusInternalServerError, "poold has an internal error")
	CodePoolEmpty     = define("pool_empty", http.StatusServiceUnavailable, "No token is ready")
	CodePaused        = define("paused", http.StatusServiceUnavailable, "No token is ready and buying is paused")
	CodeBudget        = define("budget_exhausted", http.StatusServiceUnavailable,
		"No token is available, because a budget is used up")
	CodeProviderDown = define("provider_down", http.StatusServiceUnavailable,
		"No token is ready and no provider is available")
	CodeStoreDown    = define("store_down", http.StatusServiceUnavailable, "The store cannot be used")
	CodeShuttingDown = define("shutting_down", http.StatusServiceUnavailable, "The daemon is stopping")
	CodeOverloaded   = define("overloaded", http.StatusServiceUnavailable, "Too many large bodies are in flight")
	CodeSolveRefused = define("solve_refused", http.StatusUnprocessableEntity,
		"The solving service refuses the request")
	CodeUnknownProvider = define("unknown_provider", http.StatusNotFound, "There is no such provider")
	CodeSolveFailed     = define("solve_failed", http.StatusBadGateway, "The solving service brought no token")
	CodeSolveTimeout    = define("solve_timeout", http.StatusGatewayTimeout, "No token came in time")
)

// Problem is an error response (RFC 9457). Handlers return a *Problem as an error.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Code     Code     `json:"code"`
	Target   string   `json:"target,omitempty"`
	Request  string   `json:"request_id,omitempty"` // id of the request, as in the header X-Request-Id
	Problems []string `json:"problems,omitempty"`   // list of problems in the configuration file or in the body

	Retry time.Duration `json:"-"` // value of Retry-After; 0 = no such header; at least a second for 429 and 503
	Cause error         `json:"-"` // logged but not sent; nil if the caller caused the problem
}

// Error implements error, for logs.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// NewProblem returns a problem. The detail is for people. The detail must not contain a token, a
// key or an unvalidated part of the request.
func NewProblem(c Code, detail string) *Problem {
	m := meanings[c]
	p := &Problem{Type: "urn:poold:problem:" + string(c), Title: m.title, Status: m.status, Detail: detail, Code: c}
	if m.status == http.StatusServiceUnavailable {
		p.Retry = Jitter(ShortRetry)
	}
	return p
}

// RetryAfter sets Retry-After, to at least a second, and returns the problem.
func (p *Problem) RetryAfter(d time.Duration) *Problem {
	p.Retry = max(d, time.Second)
	return p
}

// Listing adds to the problem p a list of problems in the file or in the body, and returns p.
func (p *Problem) Listing(problems targets.Problems) *Problem {
	for _, one := range problems {
		p.Problems = append(p.Problems, one.String())
	}
	return p
}

// ErrHungUp is the error of a handler whose caller hung up. The server then writes nothing more and
// closes the connection.
var ErrHungUp = errors.New("httpapi: the caller hung up")

// ShortRetry is the value of Retry-After, before jitter, for faults that should end within seconds.
const ShortRetry = 2 * time.Second

// Jitter returns a random duration from 75 % to 125 % of d. With jitter, callers that were refused
// at the same time retry at different times.
func Jitter(d time.Duration) time.Duration {
	return backoff.Around(d, 0.25)
}
