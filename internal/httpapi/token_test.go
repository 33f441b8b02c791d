package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestTokenAnswerHasAllFields: the JSON has these fields in this order, with the times of the token, and after a wait
// the further values of the service.
func TestTokenAnswerHasAllFields(t *testing.T) {
	inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
		const path = "/pool/staging-login/token"
		login := d.target("staging-login")
		want := func(o *pool.Order, source, times, more string) string {
			return `{"id":"` + d.idOf(t, o.Name, "key\x00all\x00") + `","target":"staging-login","type":"recaptcha_v2",` +
				`"token":"` + tokenValue + "-" + o.Name + `","source":"` + source + `","provider":"solver",` + times + more + "}\n"
		}
		for _, method := range []string{"GET", "POST"} {
			o := d.stock.order(t, login)
			d.stock.landToken(t, o, 40*time.Second)
			a := d.handle(t, method, path, "", bearer(keyAll))
			testkit.Equal(t, method, a.body, want(o, "pool",
				`"solved_at":"2026-01-02T03:03:25.678Z","expires_at":"2026-01-02T03:05:25.678Z","ttl_ms":80000`, ""))
			for name, value := range map[string]string{
				"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
				"Vary": "Accept",
			} {
				testkit.Equal(t, method+" "+name, a.header.Get(name), value)
			}
		}
		o, got := d.stock.order(t, login), make(chan answer, 1)
		go func() { got <- d.handle(t, "GET", path+"?wait=9s", "", bearer(keyAll)) }()
		synctest.Wait()
		d.stock.end(t, o, pool.End{Outcome: pool.Solved, Provider: "solver", Value: tokenValue + "-" + o.Name,
			Extra: `{"userAgent":"Mozilla/5.0 \"x\""}`, Lifetime: 120 * time.Second})
		testkit.Equal(t, "after a wait", (<-got).body, want(o, "wait",
			`"solved_at":"2026-01-02T03:04:05.678Z","expires_at":"2026-01-02T03:06:05.678Z","ttl_ms":120000`,
			`,"user_agent":"Mozilla/5.0 \"x\""`))
	})
}

// TestTokenRequestReachesTheStock: the parameters of a request, and what the file says about its target, reach the
// stock. A number without a unit is in seconds.
func TestTokenRequestReachesTheStock(t *testing.T) {
	set := sampleSet()
	set.Targets[0].OnEmpty = targets.OnEmptyWait // checkout
	set.Targets[0].Depth = 7
	set.Targets[0].Rate = targets.Rate{Count: 1, Per: 2 * time.Second}
	set.Targets[1].Rate = targets.Rate{Count: 20, Per: time.Minute}
	d := start(t, set, nil, nil)
	d.stock.failCalls("take", &pool.EmptyError{})
	login := pool.Call{ID: set.Targets[1].ID, Margin: 40 * time.Second, MostTickets: 20, Rate: 20, RatePer: time.Minute}
	checkout := pool.Call{ID: set.Targets[0].ID, Margin: 40 * time.Second, MostTickets: 24, Rate: 1,
		RatePer: 2 * time.Second}
	named := pool.Call{ID: login.ID, MinTTL: 90500 * time.Millisecond}
	solve.Identify(&named, "anyone\x00"+string(login.ID), "order 7")
	for _, c := range []struct {
		path, key    string // the key is an Idempotency-Key
		want         pool.Call
		wait, minTTL time.Duration
	}{
		{"staging-login/token", "", login, 0, 0},
		{"staging-login/token?wait=60s&min_ttl=1m30.5s", "order 7", login, time.Minute, named.MinTTL},
		{"staging-login/token?wait=20&min_ttl=30", "", login, 20 * time.Second, 30 * time.Second},
		{"staging-login/token?min_ttl=90.5&wait=0", "", login, 0, named.MinTTL},
		{"staging-login/token?wait=60", "", login, time.Minute, 0},
		{"staging-login/token?w%61it=.5", "", login, 500 * time.Millisecond, 0},
		{"checkout/token", "", checkout, 20 * time.Second, 0}, // on_empty: wait
		{"checkout/token?wait=0s", "", checkout, 0, 0},
	} {
		var headers []string
		if c.want.Wait, c.want.MinTTL = c.wait, c.minTTL; c.key != "" {
			headers = []string{"Idempotency-Key: " + c.key}
			c.want.Name, c.want.Fingerprint = named.Name, named.Fingerprint
		}
		d.ask(t, "GET", "/pool/"+c.path, headers...).check(t, c.path, 503)
		call := d.stock.takes.last()
		if call.Name == "" || call.Nonce == "" || !strings.Contains(call.Row, `"key":"-"`) {
			t.Errorf("%s: %+v", c.path, call)
		}
		if call.Nonce, call.Row = "", ""; c.key == "" { // TestAuditNotesEachTokenOnce has the rows
			call.Name = ""
		}
		testkit.DeepEqual(t, c.path, call, c.want)
	}
	testkit.Equal(t, "requests at the stock", d.stock.countCalls("take"), 8)
}

// TestMalformedTokenRequestIsRefused: such a request takes nothing, and its text is not repeated.
func TestMalformedTokenRequestIsRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 1)
	for _, query := range []string{
		"wait=", "wait", "wait=61", "wait=-1", "wait=.", "wait=1.2.3", "wait=1e3", "wait=0x10", "wait=1m30", "wait=20%20s",
		"wait=-1s", "wait=60.001s", "wait=1h", "wait=abc", "wait=1s&wait=1s", "wait=%zz", "wait=1s;min_ttl=2s",
		"wait=9223372036854775807h", "min_ttl=", "min_ttl=-1s", "min_ttl=121s", "min_ttl=121", "min_ttl=1s&min_ttl=2s",
		"wait=canary-query", "wait=1&wait=1", "other=1", "wait=1s&canary-query=1", "Wait=1s", "min-ttl=1s", "&canary-query",
		"=1s",
	} {
		a := d.ask(t, "GET", "/pool/staging-login/token?"+query)
		checkProblem(t, query, a, 400, CodeBadRequest, "staging-login")
		if strings.Contains(a.body, "canary") {
			t.Errorf("?%s is repeated: %s", query, a.body)
		}
	}
	for name, headers := range map[string][]string{
		"empty":     {"Idempotency-Key: "},
		"256 long":  {"Idempotency-Key: " + strings.Repeat("k", 256)},
		"two":       {"Idempotency-Key: a", "Idempotency-Key: b"},
		"not ASCII": {"Idempotency-Key: schlüssel"},
		"tab":       {"Idempotency-Key: a\tb"},
	} {
		checkProblem(t, "Idempotency-Key "+name, d.ask(t, "GET", "/pool/staging-login/token", headers...), 400,
			CodeBadRequest, "staging-login")
	}
	d.ask(t, "GET", "/pool/staging-login/token?wait=0s&min_ttl=120s", "Idempotency-Key: ~ "+
		strings.Repeat("k", 253)).check(t, "the limits themselves", 503, `"code":"`+string(CodePoolEmpty)+`"`)
	testkit.Equal(t, "requests at the stock", d.stock.countCalls("take"), 1)
}

// TestIdempotencyKeysOfCallersDiffer: the Idempotency-Keys of two callers never collide, even if
// the caller's name followed by the key is the same text for both callers.
func TestIdempotencyKeysOfCallersDiffer(t *testing.T) {
	keys := allKeys()
	keys[0].Name, keys[1].Name = "a", "a b"
	d := start(t, sampleSet(keys...), nil, nil)
	d.fill(t, "staging-login", 4)
	var given []string
	for range 2 {
		for _, request := range [][]string{
			{bearer(keyAll), "Idempotency-Key: b c"}, {bearer(keyStaging), "Idempotency-Key: c"},
			{bearer(keyAll), "Idempotency-Key: c"}, {bearer(keyAll), "Idempotency-Key: C"},
		} {
			given = append(given, idIn(t, d.ask(t, "GET", "/pool/staging-login/token", request...)))
		}
	}
	first, again := given[:4], given[4:]
	testkit.DeepEqual(t, "tokens given again", again, first)
	slices.Sort(first)
	testkit.Equal(t, "different tokens", len(slices.Compact(first)), 4)
}

// TestTargetNamesAreStrict: a path leads to a target only by the name itself. The error suggests a similar target that
// the key may use, and does not repeat the name.
func TestTargetNamesAreStrict(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	long, near := strings.Repeat("checkout", 1250), ": did you mean checkout?"
	for name, end := range map[string]string{
		"": "", "..%2fstatus": "", "%2e%2e": "", "-x": "", "no-such": "", strings.Repeat("x", 64): "", "a%00b": "",
		"%3Cscript%3E": "", ":target": "", "%1b%5b31mcheckout": "", long: "", "CHECKOUT": near, "checkout%20": near,
		"checkout%0a": near, "staging-lgoin": ": did you mean staging-login?",
	} {
		a := d.ask(t, "GET", "/pool/"+name+"/token", bearer(keyAll))
		checkProblem(t, name, a, 404, CodeUnknownTarget, "", `"the configuration file has no target of this name`+end+`"`)
	}
	checkProblem(t, "a key of some targets", d.ask(t, "GET", "/pool/staging-sinup/token", bearer(keyStaging)), 404,
		CodeUnknownTarget, "", ": did you mean staging-signup?")
	testkit.Equal(t, "requests at the stock", d.stock.countCalls("take"), 0)
}

// TestStoppingRefusesTakes: after a stop has begun, no new caller gets a token.
func TestStoppingRefusesTakes(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.Stopping()
	a := d.ask(t, "GET", "/pool/staging-login/token?wait=5s")
	checkProblem(t, "a token while stopping", a, 503, CodeShuttingDown, "staging-login")
	if a.header.Get("Retry-After") == "" || !a.closing {
		t.Errorf("a token while stopping: closing %v, %v", a.closing, a.header)
	}
	testkit.Equal(t, "requests at the stock", d.stock.countCalls("take"), 0)
}

// TestWaitOutlivesReadTimeout: if the ReadTimeout ends during a wait, the server must not mistake
// this for a hang-up of the caller.
func TestWaitOutlivesReadTimeout(t *testing.T) {
	d := start(t, sampleSet(), nil, func(s *http.Server) { s.ReadTimeout = 250 * time.Millisecond })
	d.fill(t, "staging-login", 2)
	d.stock.taken = func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	for _, body := range []string{"", " "} { // with a body, net/http begins to read ahead at a later moment
		a := d.send(t, "POST", "/pool/staging-login/token?wait=1s", strings.NewReader(body))
		a.check(t, fmt.Sprintf("a wait with the body %q", body), 200)
	}
}
