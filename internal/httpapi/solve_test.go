package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/solve"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// fakeSolver is a Solver whose Solve has results from its fields. A token without a value or a
// source gets one. fakeSolver also records the requests.
type fakeSolver struct {
	*solve.Solver

	stock  *watchedStock // for Await
	asked  record[solve.Request]
	token  pool.Token
	err    error
	begun  func(solve.Request) // called first, concurrently for all requests; nil = no-op
	during func()              // called before Solve returns; nil = no-op
	waits  bool                // Solve waits until the request's wait is over
}

func (f *fakeSolver) Solve(ctx context.Context, r solve.Request) (pool.Token, error) {
	if f.begun != nil {
		f.begun(r)
	}
	f.asked.add(r)
	if f.during != nil {
		f.during()
	}
	if f.waits {
		waiting, cancel := context.WithTimeout(ctx, r.Call.Wait)
		defer cancel()
		<-waiting.Done()
	}
	token := f.token
	token.Value, token.Source = cmp.Or(token.Value, "canary-token"), cmp.Or(token.Source, pool.FromSolve)
	if token.Born.IsZero() {
		token.Born, token.Dies = day, day.Add(time.Minute)
	}
	return token, f.err
}

func (f *fakeSolver) Await(ctx context.Context, r solve.Request) (pool.Token, error) {
	return f.stock.Take(ctx, r.Call)
}

func solvingSet(t *testing.T, keys ...targets.Key) *targets.Set {
	t.Helper()
	parsed, err := targets.Parse("pools.yaml", []byte(`
providers: [{name: s, protocol: simulated}]
targets: {t: {type: turnstile, sitekey: k, pageurl: "https://t.example.com/", owner: o}}
solve: {owner: ops@example.com, pages: ["https://guests.example.com/*"], images: true,
        budget: {per_hour: 7, per_day: 50}, rate: 3/s}
`), targets.References{})
	testkit.NoError(t, err)
	set := sampleSet(keys...)
	set.Solve = parsed.Solve
	return set
}

func (d *daemon) solve(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return d.send(t, "POST", "/solve", strings.NewReader(body), append(headers, isJSON)...)
}

const (
	guestBody  = `{"type":"turnstile","sitekey":"k","pageurl":"https://guests.example.com/a"%s}`
	targetBody = `{"type":"recaptcha_v2","sitekey":"6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",` +
		`"pageurl":"https://%s.example.com/"}`
)

// TestSolveRequestsReachPackageSolve: package solve gets the right requests for a guest and for the
// identity of a target.
func TestSolveRequestsReachPackageSolve(t *testing.T) {
	d := start(t, solvingSet(t, allKeys()...), nil, nil)
	d.solver.token = pool.Token{Order: "tok1", Value: "canary-token", Provider: "solver", Born: day,
		Dies: day.Add(2 * time.Minute), TTL: time.Minute, Source: pool.FromSolve}
	a := d.solve(t, fmt.Sprintf(guestBody, `,"timeout":"9s"`), bearer(keyAll), "Idempotency-Key: again")
	if a.status != 200 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r := d.solver.asked.last()
	id := captcha.Identity{Type: captcha.Turnstile, Sitekey: "k", Pageurl: "https://guests.example.com/a"}
	c := *r.Call
	if c.Name == "" || c.Nonce == "" || c.Fingerprint == "" || c.Row == "" || r.Share != nil || r.Out != nil {
		t.Errorf("call %+v", c)
	}
	c.Name, c.Nonce, c.Fingerprint, c.Row = "", "", "", ""
	const margin = 50 * time.Second
	testkit.DeepEqual(t, "the call of a guest", c, pool.Call{ID: pool.Guest(id.ID()), Wait: 9 * time.Second,
		MostTickets: solve.MostWaiting, Margin: margin})
	testkit.Equal(t, "the rate", r.Rate, pool.Rate{Count: 3, Per: time.Second})
	testkit.DeepEqual(t, "what is bought", *r.Guest, purchase.Spec{Identity: id, ID: c.ID, Guest: true, Target: "/solve",
		Owner: "ops@example.com", Lifetime: 300 * time.Second, Margin: margin, Horizon: margin, Urgent: true,
		Budgets: []pool.Budget{{Scope: pool.ScopeSolve, PerHour: 7, PerDay: 50}}})
	got := parseAnswer[map[string]any](t, a)
	want := map[string]any{
		"id": d.idOf(t, "tok1", "key\x00all\x00") + "." + string(id.ID()) + ".turnstile", "type": "turnstile",
		"token": "canary-token", "source": "solve", "provider": "solver", "solved_at": "2026-01-02T03:04:05.678Z",
		"expires_at": "2026-01-02T03:06:05.678Z", "ttl_ms": 60000.0,
	}
	testkit.Equal(t, "the answer", fmt.Sprint(got), fmt.Sprint(want))
	d.solve(t, fmt.Sprintf(targetBody, "staging-login"), bearer(keyStaging))
	r = d.solver.asked.last()
	if c := r.Call; r.Guest != nil || c.ID != d.target("staging-login").ID || c.Wait != 2*time.Minute ||
		c.Margin != 40*time.Second || c.MostTickets != solve.MostWaiting || // more than in a take of this target
		c.Fingerprint != "" || r.Out == nil {
		t.Errorf("of a target: %+v", r)
	}
	testkit.NoError(t, d.stock.Pool.Pause(t.Context(), d.target("staging-login").ID, "by ops", time.Hour))
	d.solve(t, fmt.Sprintf(targetBody, "staging-login"), bearer(keyStaging))
	testkit.Equal(t, "the wait for a paused target", d.solver.asked.last().Call.Wait, 0)
	testkit.Equal(t, "as text", d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyAll), "Accept: text/plain").body,
		"canary-token")
}

// idOf returns the id of an order's token for a caller.
func (d *daemon) idOf(t *testing.T, order, caller string) string {
	t.Helper()
	signer, err := d.ids.Signer(t.Context())
	testkit.NoError(t, err)
	return signer.ID(order, caller)
}

// TestForbiddenSolveBuysNothing: package solve gets no request that the file or the caller's key does not allow.
func TestForbiddenSolveBuysNothing(t *testing.T) {
	d := start(t, solvingSet(t, allKeys()...), nil, nil)
	other := strings.Replace(fmt.Sprintf(guestBody, ""), "guests.example.com", "evil.example", 1)
	for name, c := range map[string]struct {
		body, key string
		status    int
		code      Code
		says      string
	}{
		"a page of another site":  {other, keyAll, 403, CodeForbidden, "solve.pages"},
		"a key of some targets":   {fmt.Sprintf(guestBody, ""), keyStaging, 403, CodeForbidden, "limited"},
		"a forbidden target":      {fmt.Sprintf(targetBody, "checkout"), keyStaging, 403, CodeForbidden, "limited"},
		"a key without the scope": {fmt.Sprintf(guestBody, ""), keyStatus, 403, CodeForbidden, "scope solve"},
		"an unknown field":        {fmt.Sprintf(guestBody, `,"canary":1`), keyAll, 400, CodeBadRequest, "canary: unknown"},
		"a misspelt dedup": {fmt.Sprintf(guestBody, `,"dedup":"idendity"`), keyAll, 400, CodeBadRequest,
			"dedup: must be"},
		"a body that is no JSON": {"type=turnstile", keyAll, 400, CodeBadRequest, "not JSON"},
		"a large picture": {
			`{"type":"image","image":"` + base64.StdEncoding.EncodeToString(make([]byte, 1<<20+1)) + `"}`, keyAll, 400,
			CodeBadRequest, "1 MiB",
		},
		"a large body": {`{"type":"` + strings.Repeat("x", 2<<20) + `"}`, keyAll, 413, CodeTooLarge, "2048 KiB"},
	} {
		checkProblem(t, name, d.solve(t, c.body, bearer(c.key)), c.status, c.code, "", c.says)
	}
	testkit.Equal(t, "solves were asked for", len(d.solver.asked.all()), 0)
	// Other routes keep their smaller limit for bodies.
	d.send(t, "POST", "/pool/staging-login/pause", strings.NewReader(`{"for":"1h"}`+strings.Repeat(" ", 65<<10)),
		bearer(keyAll), isJSON).check(t, "a large body elsewhere", 413)
	closed := start(t, sampleSet(), nil, nil)
	checkProblem(t, "a guest without the section", closed.solve(t, fmt.Sprintf(guestBody, "")), 403, CodeForbidden, "")
	closed.solve(t, fmt.Sprintf(targetBody, "checkout")).check(t, "a target's identity without the section", 200)
}

func TestSolveWithoutATokenHasACode(t *testing.T) {
	d := start(t, solvingSet(t), nil, nil)
	for name, c := range map[string]struct {
		err         error
		status      int
		code        Code
		least, most int // Retry-After in seconds
		says        string
	}{
		"a failed solve":     {&pool.FailedError{Reason: "unsolvable"}, 502, CodeSolveFailed, 0, 0, "unsolvable"},
		"refused parameters": {&pool.FailedError{BadParameters: true, Reason: "x"}, 422, CodeSolveRefused, 0, 0, "x"},
		"a time-out":         {&pool.EmptyError{}, 504, CodeSolveTimeout, 0, 0, "no token came in time"},
		"too many callers": {&pool.EmptyError{Full: true}, 503, CodePoolEmpty, 1, 60,
			"500 callers or more wait, the most for this identity"},
		"a used up rate": {&pool.RateError{RetryAfter: 3 * time.Second}, 429, CodeRateLimited, 3, 3,
			"the rate of on-demand solves is used up"},
		"a used up budget": {&pool.FailedError{NotPlaced: pool.ReasonBudget, Reason: "used up",
			Until: time.Now().Add(40 * time.Second)}, 503, CodeBudget, 39, 40, "used up"},
		"an outage": {&pool.FailedError{NotPlaced: pool.ReasonBrake, Reason: "ERROR_ZERO_BALANCE"}, 503, CodeProviderDown,
			1, 60, "ERROR_ZERO_BALANCE"},
		"no Redis":              {pool.ErrDown, 503, CodeStoreDown, 1, 3, ""},
		"a stopping replica":    {pool.ErrClosed, 503, CodeShuttingDown, 1, 3, ""},
		"another request's key": {pool.ErrConflict, 409, CodeConflict, 0, 0, ""},
		"an unknown error":      {errors.New("unheard of"), 500, CodeInternal, 0, 0, ""},
	} {
		d.solver.err = c.err
		a := d.solve(t, fmt.Sprintf(guestBody, ""))
		checkProblem(t, name, a, c.status, c.code, "", c.says)
		a.checkRetry(t, name, c.least, c.most)
	}
	d.solver.err = &pool.EmptyError{}
	checkProblem(t, "the time-out of a target is over", d.solve(t, fmt.Sprintf(targetBody, "checkout")), 504,
		CodeSolveTimeout, "checkout")
}

// TestSolveAfterAReloadChecksRights: a caller that lost its rights in a reload during its wait gets
// no token. The token returns to the stock, unless the request has an Idempotency-Key or other
// callers share the token.
func TestSolveAfterAReloadChecksRights(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.solver.during = func() { d.config.set.Store(sampleSet(allKeys()...)) }
	for _, c := range []struct {
		more    string
		header  string
		returns int // expected total after this row
	}{
		{"", "X: y", 1},
		{`,"dedup":"identity"`, "X: y", 1},
		{"", "Idempotency-Key: x", 1},
	} {
		d.config.set.Store(solvingSet(t, allKeys()...))
		checkProblem(t, c.more+c.header, d.solve(t, fmt.Sprintf(guestBody, c.more), bearer(keyAll), c.header), 403,
			CodeForbidden, "")
		testkit.Equal(t, "tokens that went back", d.stock.countCalls("return"), c.returns)
	}
}
