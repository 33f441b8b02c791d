package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestATokenIsHandedOutOnce: a request takes a token from the stock, which is handed out once, as JSON or as text.
func TestATokenIsHandedOutOnce(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 2)
	const path = "/pool/staging-login/token"
	first := parseAnswer[tokenAnswer](t, d.ask(t, "GET", path))
	second := d.ask(t, "GET", path, "Accept: text/plain")
	second.check(t, "as text", 200, tokenValue)
	if !strings.HasPrefix(first.Token, tokenValue) || first.Source != pool.FromPool || first.Token == second.body {
		t.Errorf("%+v, and then %s", first, second.body)
	}
	checkProblem(t, "a third one", d.ask(t, "GET", path), 503, CodePoolEmpty, "staging-login")
}

// TestTokenAnswerHasAllFields: the JSON has these fields in this order, with the times of the token, and after a wait
// the further values of the service.
func TestTokenAnswerHasAllFields(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	const moment = `(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)`
	want := regexp.MustCompile(`^{"id":"(o\d+\.[A-Za-z0-9_-]+)","target":"staging-login","type":"recaptcha_v2","token":"` +
		tokenValue + `-o\d+","source":"pool","provider":"solver",` +
		`"solved_at":"` + moment + `","expires_at":"` + moment + `","ttl_ms":(\d+)}` + "\n$")
	for _, method := range []string{"GET", "POST"} {
		d.stock.landToken(t, d.stock.order(t, d.target("staging-login")), 40*time.Second)
		a := d.ask(t, method, "/pool/staging-login/token")
		got := want.FindStringSubmatch(a.body)
		if a.status != 200 || got == nil {
			t.Fatalf("%s: %d %s", method, a.status, a.body)
		}
		solved, _ := time.Parse(time.RFC3339, got[2])
		expires, _ := time.Parse(time.RFC3339, got[3])
		ttl, _ := strconv.Atoi(got[4])
		if left := 80*time.Second - time.Duration(ttl)*time.Millisecond; expires.Sub(solved) != 120*time.Second || left < 0 ||
			left > 5*time.Second ||
			(time.Since(solved)-40*time.Second).Abs() > 5*time.Second {
			t.Errorf("%s: %s; want a life of 120 s, solved 40 s ago, and a ttl_ms of 80 s", method, a.body)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Vary": "Accept",
		} {
			testkit.Equal(t, method+" "+name, a.header.Get(name), value)
		}
	}
	ref := d.stock.order(t, d.target("staging-login"))
	landed := make(chan struct{})
	go func() {
		defer close(landed)
		for d.stock.readStock(t, d.target("staging-login")).Waiting == 0 { // until a caller waits for the token
			time.Sleep(time.Millisecond)
		}
		d.stock.end(t, ref, pool.End{Outcome: pool.Solved, Provider: "solver", Value: tokenValue + "-" + ref.Name,
			Extra: `{"userAgent":"Mozilla/5.0 \"x\""}`, Lifetime: 120 * time.Second})
	}()
	fields := parseAnswer[map[string]any](t, d.ask(t, "GET", "/pool/staging-login/token?wait=9s"))
	if fields["user_agent"] != "Mozilla/5.0 \"x\"" || fields["source"] != "wait" {
		t.Errorf("user agent or source is not passed on: %v", fields)
	}
	<-landed
}

// TestTokenRequestReachesTheStock: the parameters of a request, and what the file says about its target, reach the
// stock.
func TestTokenRequestReachesTheStock(t *testing.T) {
	set := sampleSet()
	set.Targets[0].OnEmpty = targets.OnEmptyWait // checkout
	set.Targets[0].Depth = 7
	set.Targets[0].Rate = targets.Rate{Count: 1, Per: 2 * time.Second}
	set.Targets[1].Rate = targets.Rate{Count: 20, Per: time.Minute}
	d := start(t, set, nil, nil)
	d.fill(t, "staging-login", 2)
	d.fill(t, "checkout", 2)

	sent := func(path string, headers ...string) pool.Call {
		t.Helper()
		before, _ := d.stock.countTakes()
		if a := d.ask(t, "GET", path, headers...); a.status != 200 && a.status != 429 { // the rate is used up
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		after, call := d.stock.countTakes()
		if after != before+1 || call.Name == "" || call.Nonce == "" || !strings.Contains(call.Row, `"key":"-"`) {
			t.Fatalf("%s: %d takes, %+v", path, after-before, call)
		}
		call.Name, call.Nonce, call.Row = "", "", "" // TestAuditNotesEachTokenOnce has the rows
		return call
	}
	want := pool.Call{ID: set.Targets[1].ID, Margin: 40 * time.Second, MostTickets: 20, Rate: 20, RatePer: time.Minute}
	testkit.DeepEqual(t, "the call of a request without parameters", sent("/pool/staging-login/token"), want)
	named := pool.Call{ID: want.ID, MinTTL: 90500 * time.Millisecond}
	solve.Identify(&named, "anyone\x00"+string(want.ID), "order 7")
	want.Wait, want.MinTTL, want.Fingerprint = 60*time.Second, named.MinTTL, named.Fingerprint
	testkit.DeepEqual(t, "the call of a request with all parameters",
		sent("/pool/staging-login/token?wait=60s&min_ttl=1m30.5s", "Idempotency-Key: order 7"), want)
	want = pool.Call{ID: set.Targets[0].ID, Margin: 40 * time.Second, MostTickets: 24, Rate: 1, RatePer: 2 * time.Second,
		Wait: 20 * time.Second}
	testkit.DeepEqual(t, "the call for a target with on_empty: wait", sent("/pool/checkout/token"), want)
	want.Wait = 0
	testkit.DeepEqual(t, "an explicit wait beats on_empty", sent("/pool/checkout/token?wait=0s"), want)
}

// TestWaitAndMinTTL: a number without a unit is in seconds.
func TestWaitAndMinTTL(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for query, waits := range map[string][2]time.Duration{
		"wait=20&min_ttl=30": {20 * time.Second, 30 * time.Second}, "min_ttl=90.5&wait=0": {0, 90500 * time.Millisecond},
		"wait=60": {60 * time.Second, 0}, "w%61it=.5": {500 * time.Millisecond, 0}, "": {0, 0},
	} {
		d.stock.failCalls("take", &pool.EmptyError{})
		d.ask(t, "GET", "/pool/staging-login/token?"+query).check(t, "?"+query, 503)
		_, got := d.stock.countTakes()
		testkit.Equal(t, "wait and min_ttl of ?"+query, [2]time.Duration{got.Wait, got.MinTTL}, waits)
		d.stock.before = nil // the next request may take
	}
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
	if a := d.ask(t, "HEAD", "/pool/staging-login/token"); a.status != 405 ||
		a.header.Get("Allow") != "OPTIONS, GET, POST" {
		t.Errorf("HEAD: %d, Allow %q", a.status, a.header.Get("Allow"))
	}
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

// TestTargetNamesAreStrict: a path leads to a target only by the name itself.
func TestTargetNamesAreStrict(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, path := range []string{
		"/pool//token", "/pool/..%2fstatus/token", "/pool/%2e%2e/token", "/pool/STAGING-LOGIN/token",
		"/pool/-x/token", "/pool/no-such/token", "/pool/" + strings.Repeat("x", 64) + "/token", "/pool/a%00b/token",
		"/pool/%3Cscript%3E/token", "/pool/:target/token", "/pool/staging-login%20/token", "/pool/staging-login%0a/token",
	} {
		a := d.ask(t, "GET", path)
		checkProblem(t, path, a, 404, CodeUnknownTarget, "")
		if strings.Contains(a.body, "script") {
			t.Errorf("%s is repeated: %s", path, a.body)
		}
	}
	testkit.Equal(t, "requests at the stock", d.stock.countCalls("take"), 0)
}

// TestUnknownTargetNamesTheNearOne: the error suggests a similar target that the key may use.
func TestUnknownTargetNamesTheNearOne(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for _, c := range []struct{ key, name, end string }{
		{keyAll, "staging-lgoin", "of this name: did you mean staging-login?"},
		{keyAll, "CHECKOUT", ": did you mean checkout?"}, {keyAll, "other", "of this name"},
		{keyStaging, "staging-sinup", ": did you mean staging-signup?"},
		{keyAll, "%1b%5b31mcheckout", "of this name"}, {keyAll, strings.Repeat("checkout", 1250), "of this name"},
	} {
		checkProblem(t, c.name[:5], d.ask(t, "GET", "/pool/"+c.name+"/token", bearer(c.key)), 404, CodeUnknownTarget, "",
			c.end+`","code"`)
	}
}

// TestStoppingRefusesTakes: after a stop has begun, no new caller gets a token, and /readyz
// responds with 503.
func TestStoppingRefusesTakes(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.ask(t, "GET", "/readyz").check(t, "readyz before the stop", 200)
	d.Stopping()
	a := d.ask(t, "GET", "/pool/staging-login/token?wait=5s")
	checkProblem(t, "a token while stopping", a, 503, CodeShuttingDown, "staging-login")
	if a.header.Get("Retry-After") == "" || !a.closing {
		t.Errorf("a token while stopping: closing %v, %v", a.closing, a.header)
	}
	testkit.Equal(t, "requests at the stock", d.stock.countCalls("take"), 0)
	checkProblem(t, "readyz while stopping", d.ask(t, "GET", "/readyz"), 503, CodeShuttingDown, "")
	d.ask(t, "GET", "/healthz").check(t, "healthz while stopping", 200)
	d.ask(t, "GET", "/status.json").check(t, "status while stopping", 0, `"ready":false`)
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
