package httpapi

import (
	"cmp"
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
		d.stock.looked = &c.counts
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
	d.stock.looked = &pool.Counts{Orders: 2, Waiting: 1}
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
	type states = []purchase.ProviderStatus
	paused := func(reason string, until time.Duration) purchase.ProviderStatus {
		return purchase.ProviderStatus{Name: "solver",
			State: provider.Condition{Kind: provider.StateDown, Reason: reason, Until: time.Now().Add(until)}}
	}
	busy := purchase.ProviderStatus{Name: "other",
		State: provider.Condition{Kind: provider.StateBusy, Until: time.Now().Add(time.Hour)}}
	for _, c := range []struct {
		name      string
		refilling refill.Status
		inFile    bool
		paused    string
		providers states
		code      Code
		detail    string
		retry     int // least allowed Retry-After in seconds
	}{
		{name: "an empty pool", refilling: refill.Status{State: refill.OK, Lead: time.Second},
			providers: states{busy}, code: CodePoolEmpty, retry: 1},
		{name: "a target paused in the file", inFile: true, providers: states{busy}, code: CodePaused, retry: 300},
		{name: "a refused solve", refilling: refill.Status{State: refill.Refused, Reason: "wrong sitekey"},
			providers: states{busy}, code: CodeSolveRefused, detail: "wrong sitekey", retry: 1},
		{name: "a refused solve that is tried in an hour",
			refilling: refill.Status{State: refill.Refused, Reason: "wrong sitekey", Until: time.Now().Add(time.Hour)},
			providers: states{busy}, code: CodeSolveRefused, retry: 3500},
		{name: "a provider down", providers: states{paused("no money", time.Minute)}, code: CodeProviderDown,
			detail: "no money", retry: 55},
		{name: "all providers down", providers: states{paused("no money", time.Hour),
			paused("wrong key", time.Minute)}, code: CodeProviderDown, detail: "solver is down (no money)", retry: 55},
		{name: "a full budget", refilling: refill.Status{State: refill.Budget, Reason: "the hour is full"},
			providers: states{paused("no money", time.Hour)}, code: CodeBudget, detail: "the hour is full", retry: 1},
		{name: "a full budget and a pause", inFile: true, refilling: refill.Status{State: refill.Budget},
			providers: states{busy}, code: CodePaused, retry: 1},
		{name: "one provider down", providers: states{paused("no money", time.Minute), busy}, code: CodePoolEmpty, retry: 1},
		{name: "no provider at all", code: CodeProviderDown, retry: 1},
		{name: "a target paused by an operator", paused: "paused by nightly until noon: the page changes", code: CodePaused,
			detail: "paused by nightly until noon", retry: 3500},
		{name: "a starved target", refilling: refill.Status{State: refill.Starved, Reason: "provider other is busy"},
			providers: states{busy}, code: CodePoolEmpty, detail: "provider other is busy; no token", retry: 1},
		{name: "a target without requests", refilling: refill.Status{State: refill.OK}, providers: states{busy},
			code: CodePoolEmpty, detail: "no caller asked for a while", retry: 1},
	} {
		set := sampleSet()
		set.Targets[1].Paused = c.inFile
		d := start(t, set, nil, nil)
		c.refilling.State = cmp.Or(c.refilling.State, refill.OK)
		d.say(t, "staging-login", c.refilling)
		d.buyer.providers = func(context.Context) []purchase.ProviderStatus { return c.providers }
		if c.paused != "" {
			testkit.NoError(t, d.stock.Pool.Pause(t.Context(), set.Targets[1].ID, c.paused, time.Hour))
		}
		a := d.ask(t, "GET", "/pool/staging-login/token")
		checkProblem(t, c.name, a, NewProblem(c.code, "").Status, c.code, "staging-login")
		a.checkRetry(t, c.name, c.retry, 3601)
		a.check(t, c.name, 0, c.detail)
		testkit.Equal(t, c.name+": surveys of all targets", d.stock.countCalls("survey"), 0)
		heard, shown := parseAnswer[Problem](t, a), parseAnswer[status.Target](t, d.ask(t, "GET", "/pool/staging-login"))
		if rest, same := strings.CutPrefix(heard.Detail, shown.Reason); !same || rest != "" && c.code != CodePoolEmpty {
			t.Errorf("%s: a caller hears %q, and the status shows %q", c.name, heard.Detail, shown.Reason)
		}
	}
}
