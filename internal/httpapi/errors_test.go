package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/status"
	"poold/internal/testkit"
)

// TestErrorsOfATakeHaveCodeAndRetry: each error of a take has its own status and code. If a retry
// can help, the response has the header Retry-After.
func TestErrorsOfATakeHaveCodeAndRetry(t *testing.T) {
	set := sampleSet()
	d := start(t, set, nil, nil)
	unknown := pool.Counts{Status: `{"lead":18000000000}`}
	paused := unknown
	paused.Brake.Paused = "paused by ops"
	until := paused
	until.Brake.Resumes = time.Now().Add(time.Minute)
	empty := &pool.EmptyError{}
	for _, c := range []struct {
		name     string
		err      error
		counts   pool.Counts
		status   int
		code     Code
		from, to int // Retry-After in seconds; 0 = no Retry-After
	}{
		{"empty: a lead time of 18s, spread", empty, unknown, 503, CodePoolEmpty, 14, 23},
		{"full", &pool.EmptyError{Full: true}, unknown, 503, CodePoolEmpty, 14, 23},
		{"paused", empty, paused, 503, CodePaused, 300, 300},
		{"paused for a minute", empty, until, 503, CodePaused, 50, 61},
		{"target rate", &pool.RateError{RetryAfter: 1500 * time.Millisecond}, unknown, 429, CodeRateLimited, 2, 2},
		{"target rate, now", &pool.RateError{}, unknown, 429, CodeRateLimited, 1, 1},
		{"conflict", pool.ErrConflict, unknown, 409, CodeConflict, 0, 0},
		{"down", fmt.Errorf("taking: %w", pool.ErrDown), unknown, 503, CodeStoreDown, 1, 3},
		{"too slow", context.DeadlineExceeded, unknown, 503, CodeStoreDown, 1, 3},
		{"closing", fmt.Errorf("taking: %w", pool.ErrClosed), unknown, 503, CodeShuttingDown, 1, 3},
		{"anything else", errors.New("canary-cause"), unknown, 500, CodeInternal, 0, 0},
	} {
		d.stock.failCalls("take", c.err)
		d.stock.counts = &c.counts
		a := d.ask(t, "GET", "/pool/staging-login/token", "Accept: text/plain")
		checkProblem(t, c.name, a, c.status, c.code, "staging-login")
		a.checkRetry(t, c.name, c.from, c.to)
		if strings.Contains(a.body, "canary-cause") {
			t.Errorf("%s shows its cause: %s", c.name, a.body)
		}
	}
	d.stock.failCalls("take", &pool.RateError{})
	d.ask(t, "GET", "/pool/staging-login/token").check(t, "whose rate", 429,
		"the rate of the target staging-login is used up")
	d.stock.failCalls("take", empty)
	d.stock.counts = &pool.Counts{Orders: 2, Waiting: 1}
	const text = "no token is ready (orders in flight: 2, pending callers: 1); ?wait=60s waits for one"
	d.ask(t, "GET", "/pool/staging-login/token").check(t, "a target without tokens", 0, text)
	d.stock.failCalls("take", &pool.EmptyError{Full: true})
	d.ask(t, "GET", "/pool/staging-login/token").check(t, "a target with too many callers", 0,
		"20 callers wait, the most for depth 5; raise depth")
	if !strings.Contains(d.logged.String(), "canary-cause") {
		t.Error("an internal error is not in the log")
	}
}

// checkProblem checks that a response is a problem with the common form, and that the body contains
// the given parts.
func checkProblem(t *testing.T, name string, a answer, status int, want Code, target string, parts ...string) {
	t.Helper()
	a.check(t, name, status, parts...)
	if a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %d %v", name, a.status, a.header)
	}
	fields := parseAnswer[map[string]any](t, a)
	for field, value := range map[string]any{"code": string(want), "status": float64(status),
		"type": "urn:poold:problem:" + string(want)} {
		testkit.Equal(t, name+": "+field, fields[field], value)
	}
	for _, field := range []string{"title", "detail"} {
		if text, ok := fields[field].(string); !ok || text == "" {
			t.Errorf("%s: no %s in %s", name, field, a.body)
		}
	}
	for field := range fields {
		if a.status >= 400 && !slices.Contains(
			[]string{"type", "title", "status", "detail", "code", "target", "request_id", "problems"}, field) {
			t.Errorf("%s: the field %s is not of the API: %s", name, field, a.body)
		}
	}
	got, _ := fields["target"].(string)
	testkit.Equal(t, name+": target", got, target)
}

// TestEmptyPoolNamesItsReason: the response for an empty pool and the status contain the same
// reason.
func TestEmptyPoolNamesItsReason(t *testing.T) {
	in := func(kind provider.StateKind, reason string, until time.Duration) purchase.ProviderStatus {
		return purchase.ProviderStatus{Name: "solver",
			State: provider.Condition{Kind: kind, Reason: reason, Until: time.Now().Add(until)}}
	}
	type providers = []purchase.ProviderStatus
	busy := in(provider.StateBusy, "", time.Hour)
	broke, brokeLong := in(provider.StateDown, "no money", time.Minute), in(provider.StateDown, "no money", time.Hour)
	wrongKey := in(provider.StateDown, "wrong key", time.Minute)
	soon := refill.Status{State: refill.OK, Lead: time.Second}
	refused := refill.Status{State: refill.Refused, Reason: "wrong sitekey"}
	refusedLong := refused
	refusedLong.Until = time.Now().Add(time.Hour)
	full := refill.Status{State: refill.Budget, Reason: "the hour is full"}
	for _, c := range []struct {
		name      string
		refilling refill.Status
		inFile    bool   // paused in the file
		paused    string // by an operator, for this reason
		providers providers
		code      Code
		retry     int // least allowed Retry-After in seconds
	}{
		{"an empty pool", soon, false, "", providers{busy}, CodePoolEmpty, 1},
		{"a target paused in the file", soon, true, "", providers{busy}, CodePaused, 300},
		{"a target paused by an operator", soon, false, "paused by nightly", nil, CodePaused, 3500},
		{"a refused solve", refused, false, "", providers{busy}, CodeSolveRefused, 1},
		{"a refused solve that is tried in an hour", refusedLong, false, "", providers{busy}, CodeSolveRefused, 3500},
		{"a provider down", soon, false, "", providers{broke}, CodeProviderDown, 55},
		{"all providers down", soon, false, "", providers{brokeLong, wrongKey}, CodeProviderDown, 55},
		{"no provider at all", soon, false, "", nil, CodeProviderDown, 1},
		{"one provider down", soon, false, "", providers{broke, busy}, CodePoolEmpty, 1},
		{"a full budget", full, false, "", providers{brokeLong}, CodeBudget, 1},
		{"a full budget and a pause", full, true, "", providers{busy}, CodePaused, 1},
		{"a starved target", refill.Status{State: refill.Starved, Reason: "solver is busy"}, false, "", providers{busy},
			CodePoolEmpty, 1},
		{"a target without requests", refill.Status{State: refill.OK}, false, "", providers{busy}, CodePoolEmpty, 1},
	} {
		set := sampleSet()
		set.Targets[1].Paused = c.inFile
		d := start(t, set, nil, nil)
		d.say(t, "staging-login", c.refilling)
		d.buyer.providers = func(context.Context) []purchase.ProviderStatus { return c.providers }
		if c.paused != "" {
			testkit.NoError(t, d.stock.Pool.Pause(t.Context(), set.Targets[1].ID, c.paused, time.Hour))
		}
		a := d.ask(t, "GET", "/pool/staging-login/token")
		checkProblem(t, c.name, a, NewProblem(c.code, "").Status, c.code, "staging-login")
		a.checkRetry(t, c.name, c.retry, 3601)
		if c.code == CodeProviderDown && c.providers != nil {
			a.check(t, c.name, 0, "solver is down (no money)")
		}
		testkit.Equal(t, c.name+": surveys of all targets", d.stock.countCalls("survey"), 0)
		heard, shown := parseAnswer[Problem](t, a), parseAnswer[status.Target](t, d.ask(t, "GET", "/pool/staging-login"))
		if rest, same := strings.CutPrefix(heard.Detail, shown.Reason); !same || rest != "" && c.code != CodePoolEmpty {
			t.Errorf("%s: a caller hears %q, and the status shows %q", c.name, heard.Detail, shown.Reason)
		}
	}
}
