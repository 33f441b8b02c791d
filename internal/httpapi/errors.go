package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
)

// code is the stable word of a problem, for programs.
type code string

// The codes; README, API.
const (
	codeBadRequest    code = "bad_request"
	codeUnauthorized  code = "unauthorized"
	codeForbidden     code = "forbidden"
	codeUnknownTarget code = "unknown_target"
	codeUnknownToken  code = "unknown_token"
	codeNotFound      code = "not_found"
	codeMethod        code = "method_not_allowed"
	codeConflict      code = "idempotency_conflict"
	codeReported      code = "already_reported"
	codePausedInFile  code = "paused_in_file"
	codeWindows       code = "too_many_windows"
	codeTooLarge      code = "too_large"
	codeMisdirected   code = "misdirected_request"
	codeInvalidConfig code = "invalid_config"
	codeRateLimited   code = "rate_limited"
	codeInternal      code = "internal"
	codePoolEmpty     code = "pool_empty"
	codePaused        code = "paused"
	codeBudget        code = "budget_exhausted"
	codeProviderDown  code = "provider_down"
	codeStoreDown     code = "store_down"
	codeShuttingDown  code = "shutting_down"
)

// status returns what a code is in HTTP, and its title.
func (c code) status() (int, string) {
	switch c {
	case codeBadRequest:
		return http.StatusBadRequest, "The request is malformed"
	case codeUnauthorized:
		return http.StatusUnauthorized, "A key is needed"
	case codeForbidden:
		return http.StatusForbidden, "This caller may not do that"
	case codeUnknownTarget:
		return http.StatusNotFound, "There is no such target"
	case codeUnknownToken:
		return http.StatusNotFound, "There is no such token"
	case codeNotFound:
		return http.StatusNotFound, "There is no such page"
	case codeMethod:
		return http.StatusMethodNotAllowed, "The method is not allowed here"
	case codeConflict:
		return http.StatusConflict, "The Idempotency-Key was used for another request"
	case codeReported:
		return http.StatusConflict, "The token was reported before"
	case codePausedInFile:
		return http.StatusConflict, "The target is paused in the configuration file"
	case codeWindows:
		return http.StatusConflict, "The target has too many warm windows"
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge, "The body is too large"
	case codeMisdirected:
		return http.StatusMisdirectedRequest, "The Host is not this machine"
	case codeInvalidConfig:
		return http.StatusUnprocessableEntity, "The configuration file is not valid"
	case codeRateLimited:
		return http.StatusTooManyRequests, "Too many requests"
	case codePoolEmpty:
		return http.StatusServiceUnavailable, "No token is ready"
	case codePaused:
		return http.StatusServiceUnavailable, "No token is ready and buying is paused"
	case codeBudget:
		return http.StatusServiceUnavailable, "No token is ready and the budget is used up"
	case codeProviderDown:
		return http.StatusServiceUnavailable, "No token is ready and no provider can be asked"
	case codeStoreDown:
		return http.StatusServiceUnavailable, "The store cannot be used"
	case codeShuttingDown:
		return http.StatusServiceUnavailable, "The daemon is stopping"
	}
	return http.StatusInternalServerError, "Something went wrong inside poold"
}

// problem is an error answer (RFC 9457). Handlers return it as an error.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Code     code     `json:"code"`
	Target   string   `json:"target,omitempty"`
	Problems []string `json:"problems,omitempty"` // of the configuration file
	Ready    *bool    `json:"ready,omitempty"`    // false on /readyz, absent elsewhere
	Reasons  []string `json:"reasons,omitempty"`  // why /readyz says no

	retry time.Duration // Retry-After; 0 = none, but for 429 and 503 always at least a second
	cause error         // logged, never shown; nil where the problem is the caller's
}

func (p *problem) Error() string { return string(p.Code) + ": " + p.Detail }

// fault makes a problem. The detail is for people and must hold neither a token
// nor a key nor anything of the request that was not validated.
func fault(c code, detail string) *problem {
	status, title := c.status()
	return &problem{Type: "urn:poold:problem:" + string(c), Title: title, Status: status, Detail: detail, Code: c}
}

// after sets Retry-After.
func (p *problem) after(d time.Duration) *problem {
	p.retry = d
	return p
}

// errHungUp is what a handler returns when nobody is left to answer: nothing
// (more) is written and the connection is closed.
var errHungUp = errors.New("httpapi: the caller hung up")

// explain turns what went wrong into the answer for it.
func (s *Server) explain(ctx context.Context, c *call, err error) *problem {
	var (
		own     *problem
		empty   *pool.EmptyError
		rate    *pool.RateError
		invalid targets.Problems
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &empty):
		return s.explainEmpty(ctx, c, empty)
	case errors.As(err, &rate):
		return fault(codeRateLimited, "this target's rate is used up").after(rate.RetryAfter)
	case errors.As(err, &invalid):
		p := fault(codeInvalidConfig, "nothing was changed; the last good configuration stays in use")
		for _, one := range invalid {
			p.Problems = append(p.Problems, one.String())
		}
		return p
	case errors.Is(err, pool.ErrConflict):
		return fault(codeConflict, "this Idempotency-Key was used with another min_ttl")
	case errors.Is(err, pool.ErrUnknownToken):
		return fault(codeUnknownToken, "this caller was not given a token of this id for this target, or it died too long ago")
	case errors.Is(err, pool.ErrReported):
		return fault(codeReported, "a token is reported once, and this one was")
	case errors.Is(err, pool.ErrWindows):
		return fault(codeWindows, "the target has as many warm windows made by POST as it may have; {\"tokens\":0} ends all of them")
	case errors.Is(err, purchase.ErrNotKept): // the buyer has logged why
		return fault(codeStoreDown, "neither redis nor the disk took the callback").after(jitter(2 * time.Second))
	case errors.Is(err, pool.ErrClosed):
		return fault(codeShuttingDown, "the daemon is stopping").after(jitter(2 * time.Second))
	case errors.Is(err, pool.ErrDown), errors.Is(err, context.DeadlineExceeded):
		return fault(codeStoreDown, pool.Reason(err)).after(jitter(2 * time.Second))
	}
	p := fault(codeInternal, "the daemon's log says more")
	p.cause = err
	return p
}

// explainEmpty says why there is no token and when there may be one.
func (s *Server) explainEmpty(ctx context.Context, c *call, e *pool.EmptyError) *problem {
	note, _ := s.refill.Note(c.target.Name)
	retry := e.RetryAfter
	if retry <= 0 {
		retry = jitter(orElse(note.Lead, unknownLead))
	}
	switch {
	case e.Full:
		return fault(codePoolEmpty, "too many callers are waiting for this target already").after(retry)
	case e.Paused || c.target.Paused:
		return fault(codePaused, "buying is paused for this target").after(retry)
	case note.State == refill.Refused:
		// Asking again soon is pointless, but only a person can tell when not.
		return fault(codePoolEmpty, "the provider refuses this target: "+note.Reason).after(retry)
	case note.State == refill.Budget:
		return explainBudget(note, retry)
	}
	if reason, until, down := providersDown(s.providerStates(ctx)); down {
		if wait := time.Until(until); wait > retry {
			retry = wait
		}
		return fault(codeProviderDown, reason).after(retry)
	}
	return fault(codePoolEmpty, "no token is ready").after(retry)
}

// explainBudget says from when on something is bought again: until then asking
// is in vain, but for the orders that are under way still.
func explainBudget(note refill.Note, retry time.Duration) *problem {
	if left := time.Until(note.Until); left > 0 {
		retry = left // to the second: nothing is gained by coming before
	}
	return fault(codeBudget, orElse(note.Reason, "the budget is used up")).after(retry)
}

// providersDown reports whether no provider can be asked, why, and when the
// first of them may be asked again (zero: unknown).
func providersDown(providers []purchase.Status) (reason string, until time.Time, down bool) {
	if len(providers) == 0 {
		return "no provider is configured", time.Time{}, true
	}
	for _, p := range providers {
		if asked(p.State.Kind) {
			return "", time.Time{}, false
		}
		if until.IsZero() || p.State.Until.Before(until) {
			until = p.State.Until
		}
	}
	first := providers[0]
	return fmt.Sprintf("provider %s is %s: %s", first.Name, first.State.Kind, first.State.Reason), until, true
}

// fail writes the answer for an error.
func (s *Server) fail(c *call, r *http.Request, err error) {
	if errors.Is(err, errHungUp) || r.Context().Err() != nil {
		// net/http would send an empty 200 if we just returned; a caller that
		// closed only its sending half would take that for an answer.
		c.hungUp = true
		panic(http.ErrAbortHandler)
	}
	p := s.explain(r.Context(), c, err)
	if p.cause != nil {
		s.log.ErrorContext(r.Context(), "answering a request", slog.String("route", c.route.path), slog.Any("err", p.cause))
	}
	if c.target != nil {
		p.Target = c.target.Name
	}
	if p.Code == codeUnauthorized {
		challenge(c.w.Header(), c.route.basic)
	}
	writeProblem(&c.w, p)
}

// writeProblem sends p; a client that is gone is not an error here.
func writeProblem(w *writer, p *problem) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers alone: cannot happen
		body = []byte(`{"code":"internal"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if p.retry > 0 || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.FormatInt(wholeSeconds(p.retry), 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// wholeSeconds rounds up, to 1 at least: an earlier retry would be too early.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// jitter spreads d over 75 % to 125 % of it, so that callers turned away at
// one moment do not come back at one moment.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1) //nolint:gosec // spreading retries needs no secrecy
}

// orElse returns v, or otherwise where v is zero.
func orElse[T comparable](v, otherwise T) T {
	if v == *new(T) {
		return otherwise
	}
	return v
}
