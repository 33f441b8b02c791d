package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"poold/internal/backoff"
	"poold/internal/targets"
)

// Code identifies the kind of a problem for programs; docs/api.md lists all codes. A code never
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
	CodeBadRequest      = define("bad_request", http.StatusBadRequest, "The request is malformed")
	CodeUnauthorized    = define("unauthorized", http.StatusUnauthorized, "A key is needed")
	CodeForbidden       = define("forbidden", http.StatusForbidden, "This caller may not do that")
	CodeUnknownTarget   = define("unknown_target", http.StatusNotFound, "There is no such target")
	CodeUnknownToken    = define("unknown_token", http.StatusNotFound, "There is no such token")
	CodeUnknownOrder    = define("unknown_order", http.StatusNotFound, "There is no such order")
	CodeNoHistory       = define("no_history", http.StatusNotFound, "No history is kept")
	CodeNoAudit         = define("no_audit", http.StatusNotFound, "No audit is kept")
	CodeNotFound        = define("not_found", http.StatusNotFound, "There is no such page")
	CodeMethod          = define("method_not_allowed", http.StatusMethodNotAllowed, "The method is not allowed here")
	CodeConflict        = define("idempotency_conflict", http.StatusConflict, "The Idempotency-Key was used for another request")
	CodeReported        = define("already_reported", http.StatusConflict, "The token was reported before")
	CodePausedInFile    = define("paused_in_file", http.StatusConflict, "The target is paused in the configuration file")
	CodeTooLarge        = define("too_large", http.StatusRequestEntityTooLarge, "The body is too large")
	CodeMisdirected     = define("misdirected_request", http.StatusMisdirectedRequest, "The Host is not this machine")
	CodeInvalidConfig   = define("invalid_config", http.StatusUnprocessableEntity, "The configuration file is not valid")
	CodeRateLimited     = define("rate_limited", http.StatusTooManyRequests, "Too many requests")
	CodeInternal        = define("internal", http.StatusInternalServerError, "poold has an internal error")
	CodePoolEmpty       = define("pool_empty", http.StatusServiceUnavailable, "No token is ready")
	CodePaused          = define("paused", http.StatusServiceUnavailable, "No token is ready and buying is paused")
	CodeBudget          = define("budget_exhausted", http.StatusServiceUnavailable, "No token is ready and the budget is used up")
	CodeProviderDown    = define("provider_down", http.StatusServiceUnavailable, "No token is ready and no provider is available")
	CodeStoreDown       = define("store_down", http.StatusServiceUnavailable, "The store cannot be used")
	CodeShuttingDown    = define("shutting_down", http.StatusServiceUnavailable, "The daemon is stopping")
	CodeOverloaded      = define("overloaded", http.StatusServiceUnavailable, "Too many large bodies are in flight")
	CodeSolveRefused    = define("solve_refused", http.StatusUnprocessableEntity, "The solving service refuses the request")
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
	Ready    *bool    `json:"ready,omitempty"`      // false on /readyz, absent elsewhere
	Reasons  []string `json:"reasons,omitempty"`    // reasons of /readyz for not being ready

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

// RetryAfter sets Retry-After and returns the problem.
func (p *Problem) RetryAfter(d time.Duration) *Problem {
	p.Retry = d
	return p
}

// Listing adds to the problem p a list of problems in the file or in the body, and returns p.
func (p *Problem) Listing(problems targets.Problems) *Problem {
	for _, one := range problems {
		p.Problems = append(p.Problems, one.String())
	}
	return p
}

// ErrNotFound returns the problem for an unknown path. The problem does not quote the path.
func ErrNotFound() *Problem { return NewProblem(CodeNotFound, "no route of poold has this path") }

// ErrHungUp is the error of a handler whose caller hung up. The server then writes nothing more and
// closes the connection.
var ErrHungUp = errors.New("httpapi: the caller hung up")

// RetrySeconds returns the value of the header Retry-After: whole seconds, rounded up and at least 1,
// so that no caller retries too early; "" = the response has no such header.
func (p *Problem) RetrySeconds() string {
	if p.Retry <= 0 && p.Status != http.StatusServiceUnavailable && p.Status != http.StatusTooManyRequests {
		return ""
	}
	return strconv.FormatInt(max(1, int64((p.Retry+time.Second-1)/time.Second)), 10)
}

// ShortRetry is the value of Retry-After, before jitter, for faults that should end within seconds.
const ShortRetry = 2 * time.Second

// Jitter returns a random duration from 75 % to 125 % of d. With jitter, callers that were refused
// at the same time retry at different times.
func Jitter(d time.Duration) time.Duration {
	return backoff.Around(d, 0.25)
}
