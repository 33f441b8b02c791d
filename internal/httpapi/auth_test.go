package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/targets"
)

func basic(key string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+key))
}

// TestKeysAreFoundInBothSchemes: a key is accepted only as a Bearer token or a Basic password. A
// key with globs has access only to the targets that match a glob. TestScopeOpensOnlyItsRoutes
// contains the scopes of every route.
func TestKeysAreFoundInBothSchemes(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "staging-login", 10)
	d.fill(t, "checkout", 10)
	const none = "none"
	for _, c := range []struct {
		method, path string
		want         map[string]int // by key
	}{
		{"GET", "/pool/staging-login/token", map[string]int{none: 401, keyAll: 200, keyStaging: 200, keyStatus: 403}},
		{"POST", "/pool/checkout/token", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 403}},
		// The response to a key that is limited to some targets must not show which other targets exist.
		{"GET", "/pool/no-such/token", map[string]int{none: 401, keyAll: 404, keyStaging: 403, keyStatus: 403}},
		{"GET", "/pool/staging-none/token", map[string]int{none: 401, keyAll: 404, keyStaging: 404}},
		{"GET", "/pool/checkout", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 200}},
		{"POST", "/pool/checkout/pause", map[string]int{none: 401, keyAll: 204, keyStaging: 403, keyStatus: 403}},
		{"GET", "/status.json", map[string]int{none: 401, keyAll: 200, keyStaging: 200, keyStatus: 200}},
		{"GET", "/metrics", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 200}},
		{"POST", "/-/reload", map[string]int{none: 401, keyAll: 204, keyStaging: 403, keyStatus: 403}},
		{"DELETE", "/pool/staging-login/tokens", map[string]int{none: 401, keyAll: 204, keyStaging: 204, keyStatus: 403}},
		{"DELETE", "/pool/checkout/tokens", map[string]int{none: 401, keyAll: 204, keyStaging: 403, keyStatus: 403}},
		// The status 400 shows that the handler read the body.
		{"POST", "/pool/checkout/token/tok1/report", map[string]int{none: 401, keyAll: 400, keyStaging: 403, keyStatus: 403}},
		{"GET", "/debug/pprof/", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 403}},
		{"GET", "/debug/pprof/goroutine", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 403}},
		{"GET", "/debug/pprof/symbol", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 403}},
		{"GET", "/debug/pprof/none", map[string]int{none: 401, keyAll: 404, keyStaging: 403, keyStatus: 403}},
		{"GET", "/dead-letters", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 403}},
		{"POST", "/dead-letters/replay", map[string]int{none: 401, keyAll: 200, keyStaging: 403, keyStatus: 403}},
	} {
		for key, want := range c.want {
			ways := [][]string{{bearer(key)}, {"Authorization: bEaReR  " + key}, {basic(key)}}
			if key == none {
				ways = [][]string{
					nil, {"Authorization: Bearer"}, {"Authorization: Bearer "}, {basic("")}, {"Authorization: Basic !"}, {"Authorization: " + keyAll},
					{bearer("wrong")}, {basic("wrong")}, {bearer(keyAll[:len(keyAll)-1])}, {bearer(keyAll + "x")}, {bearer(strings.ToUpper(keyAll))},
					{"Authorization: Digest " + keyAll}, {"X-Api-Key: " + keyAll},
				}
			}
			for _, headers := range ways {
				d.forgetWrongKeys()
				d.ask(t, c.method, c.path, headers...).check(t, strings.Join(headers, " "), want)
			}
		}
	}
	d.ask(t, "GET", "/status?key="+keyAll).check(t, "a key in the query", 401)
}

func (d *daemon) forgetWrongKeys() {
	d.gate.wrongKeys.Failures = kernel.Failures[netip.Prefix]{}
}

// TestChallengeOffersBasicForPagesOnly: only routes that change nothing offer Basic, because Basic
// makes a browser prompt for a password. A response 403 has no challenge.
func TestChallengeOffersBasicForPagesOnly(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for path, want := range map[string][]string{
		"/status":                   {`Basic realm="poold", charset="UTF-8"`, `Bearer realm="poold"`},
		"/metrics":                  {`Basic realm="poold", charset="UTF-8"`, `Bearer realm="poold"`},
		"/pool/staging-login/token": {`Bearer realm="poold"`}, // a picture in a page must not open a password dialogue
	} {
		a := d.ask(t, "GET", path)
		checkProblem(t, path, a, 401, kernel.CodeUnauthorized, "")
		if got := a.header.Values("WWW-Authenticate"); !slices.Equal(got, want) {
			t.Errorf("%s: %q", path, got)
		}
	}
	a := d.ask(t, "POST", "/pool/staging-login/pause", bearer(keyStatus))
	checkProblem(t, "a key without the scope", a, 403, kernel.CodeForbidden, "")
	equal(t, "its challenge", a.header.Get("WWW-Authenticate"), "")
}

// TestPageAsksForAKeyWithItsScope: a browser asks for a key, and the page opens with it also while
// Redis is away. A key without the scope gets an error that names the scope.
func TestPageAsksForAKeyWithItsScope(t *testing.T) {
	const html, tokensOnly = "Accept: text/html", "canary-key-tokens-only"
	d := start(t, sampleSet(append(allKeys(), targets.Key{Name: "tokens", SHA256: sha256.Sum256([]byte(tokensOnly)), Scopes: []targets.Scope{targets.ScopeToken}})...), nil, nil)
	for _, headers := range [][]string{{html}, {html, basic("wrong")}} {
		a := d.ask(t, "GET", "/status", headers...)
		checkProblem(t, "no right key", a, 401, kernel.CodeUnauthorized, "")
		if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, `Basic realm="poold"`) {
			t.Errorf("the challenge: %q", got)
		}
	}
	d.ask(t, "GET", "/status", html, basic(tokensOnly)).check(t, "a key without the scope", 403, "this key lacks the scope status")
	d.stock.redis.SetDown(true)
	d.ask(t, "GET", "/status", html, basic(keyStatus)).check(t, "Redis is away", 200, `<p class="who" title="status ">looker</p>`)
}

func TestEmptyKeyHasNoOwner(t *testing.T) {
	keys := allKeys()
	keys[0].SHA256 = sha256.Sum256(nil)
	d := start(t, sampleSet(keys...), nil, nil)
	for _, header := range []string{"X: y", "Authorization: Bearer ", "Authorization: Bearer", basic(""), "Authorization: "} {
		d.ask(t, "GET", "/status", header).check(t, header, 401)
	}
}

// TestLimitedKeySeesItsTargets: for a key that is limited to some targets, /status shows only these
// targets. The file's problems and warnings are omitted, because they may name other targets.
func TestLimitedKeySeesItsTargets(t *testing.T) {
	set := sampleSet(allKeys()...)
	set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "checkout has a long lifetime"}}
	d := start(t, set, nil, nil)
	for _, accept := range []string{"application/json", "text/html"} {
		a := d.ask(t, "GET", "/status", bearer(keyStaging), "Accept: "+accept)
		if strings.Contains(a.body, "checkout") || !strings.Contains(a.body, "staging-login") || !strings.Contains(a.body, "staging-signup") {
			t.Errorf("limited: %s", a.body)
		}
		d.ask(t, "GET", "/status", bearer(keyStatus), "Accept: "+accept).check(t, "not limited", 0, "checkout has a long lifetime")
	}
	// The page offers a reload of the file only to a key for all targets.
	for key, whole := range map[string]string{keyStaging: "no", keyAll: "yes"} {
		d.ask(t, "GET", "/status", bearer(key), "Accept: text/html").check(t, "the page", 200, `data-whole="`+whole+`"`)
	}
}

// TestKeyRateRefusesUntilTheNextIsDue: if a request exceeds the rate of its key, requests are
// refused until the rate allows the next one. Other keys are served meanwhile.
func TestKeyRateRefusesUntilTheNextIsDue(t *testing.T) {
	keys := allKeys()
	keys[0].Rate = targets.Rate{Count: 3, Per: time.Hour}
	keys[1].Targets = []string{"other-*", "*"} // these globs include all targets
	d := start(t, sampleSet(keys...), nil, nil)
	for range 3 {
		d.ask(t, "GET", "/status", bearer(keyAll)).check(t, "within the rate", 200)
	}
	a := d.ask(t, "GET", "/status", bearer(keyAll))
	checkProblem(t, "beyond the rate", a, 429, kernel.CodeRateLimited, "")
	equal(t, "Retry-After", a.header.Get("Retry-After"), "1200")
	d.ask(t, "GET", "/metrics", bearer(keyStaging)).check(t, "another key", 200)
}

// TestScopeOpensOnlyItsRoutes: each scope opens the routes listed here and no other route. A new
// route also needs an entry here.
func TestScopeOpensOnlyItsRoutes(t *testing.T) {
	open := []string{"/", "/openapi.yaml", "/status.css", "/status.js", "/status.svg", "/tabs.js", "/uplot.css", "/uplot.js", "/callback/:provider/:order/:secret", "/healthz", "/readyz"}
	may := map[targets.Scope][]string{
		targets.ScopeToken: {"/pool/:target/token", "/pool/:target/token/:id/report"},
		targets.ScopeSolve: {"/solve", "/solve/:id/report"},
		targets.ScopeStatus: {"/pool/:target", "/status", "/status.json", "/metrics", "/events",
			"/history/site/:sitekey", "/history/day/:date", "/history/tasks", "/history/active", "/history/solve/:id", "/history/usage"},
		targets.ScopeAdmin: {
			"/pool/:target/tokens", "/pool/:target/pause", "/pool/:target/resume", "/-/reload", "/dead-letters", "/dead-letters/replay", "/debug/pprof/", "/debug/pprof/:profile",
			"/providers/:provider/probe", "/history/key/:name",
		},
	}
	var keys []targets.Key
	for scope := range may {
		keys = append(keys, targets.Key{Name: string(scope), SHA256: sha256.Sum256([]byte("canary-key-" + scope)), Scopes: []targets.Scope{scope}})
	}
	d := start(t, sampleSet(keys...), nil, nil)
	for _, rt := range new(areas).table() {
		for _, method := range rt.Methods {
			if method == http.MethodHead {
				continue // the response to HEAD has no body that could contain a problem
			}
			if isClients := rt.Scope == "" && rt.Body && !rt.Probe; isClients {
				// On these routes only a key in the parameters counts.
				before := d.stock.countCalls()
				a := d.send(t, method, rt.Path, strings.NewReader("{}"), bearer("canary-key-"+string(targets.ScopeToken)))
				if a.status != 200 || !strings.Contains(a.body, "ERROR_WRONG_USER_KEY") && !strings.Contains(a.body, "ERROR_KEY_DOES_NOT_EXIST") || d.stock.countCalls() != before {
					t.Errorf("%s %s with a key in a header: %d %s", method, rt.Path, a.status, a.body)
				}
				continue
			}
			for scope, paths := range may {
				for _, headers := range [][]string{{bearer("canary-key-" + string(scope))}, {basic("canary-key-" + string(scope))}} {
					before := d.stock.countCalls()
					a := d.askRoute(t, &rt, method, "staging-login", headers...)
					if allowed := slices.Contains(open, rt.Path) || slices.Contains(paths, rt.Path); allowed {
						if a.status == 401 || a.status == 403 {
							t.Errorf("%s %s with %s alone: %d %s", method, rt.Path, scope, a.status, a.body)
						}
						continue
					}
					checkProblem(t, method+" "+rt.Path+" with "+string(scope), a, 403, kernel.CodeForbidden, "")
					equal(t, a.asked+": calls of the stock", d.stock.countCalls(), before)
				}
			}
			if a := d.askRoute(t, &rt, method, "staging-login"); (a.status == 401) == slices.Contains(open, rt.Path) {
				t.Errorf("%s %s without a key: %d", method, rt.Path, a.status)
			}
		}
	}
}

// TestReloadKeepsTheRateOfAKey: a reload gives a key its whole burst again only if the reload
// changes the key's secret or rate.
func TestReloadKeepsTheRateOfAKey(t *testing.T) {
	const fresh, spent = 200, 429
	for name, c := range map[string]struct {
		change func(k *targets.Key)
		key    string
		first  []int // response statuses after the change
	}{
		"nothing":        {func(*targets.Key) {}, keyAll, []int{spent}},
		"another name":   {func(k *targets.Key) { k.Name = "renamed" }, keyAll, []int{spent}},
		"scopes":         {func(k *targets.Key) { k.Scopes = k.Scopes[:3] }, keyAll, []int{spent}},
		"targets":        {func(k *targets.Key) { k.Targets = []string{"staging-*"} }, keyAll, []int{spent}},
		"a new secret":   {func(k *targets.Key) { k.SHA256 = sha256.Sum256([]byte("canary-key-new")) }, "canary-key-new", []int{spent}},
		"another caller": {func(k *targets.Key) { k.Name, k.SHA256 = "new", sha256.Sum256([]byte("canary-key-new")) }, "canary-key-new", []int{fresh, fresh, spent}},
		"a greater rate": {func(k *targets.Key) { k.Rate.Count = 3 }, keyAll, []int{fresh, fresh, fresh, spent}},
		"a smaller rate": {func(k *targets.Key) { k.Rate.Count = 1 }, keyAll, []int{fresh, spent}},
		"by the day":     {func(k *targets.Key) { k.Rate.Per = 24 * time.Hour }, keyAll, []int{fresh, fresh, spent}},
		"below one":      {func(k *targets.Key) { k.Rate = targets.Rate{Count: 0.1, Per: time.Hour} }, keyAll, []int{fresh, spent}},
		"one and a half": {func(k *targets.Key) { k.Rate.Count = 1.5 }, keyAll, []int{fresh, fresh, spent}},
		"no rate":        {func(k *targets.Key) { k.Rate = targets.Rate{} }, keyAll, []int{fresh, fresh, fresh, fresh}},
	} {
		keys := allKeys()
		keys[0].Rate = targets.Rate{Count: 2, Per: time.Hour}
		d := start(t, sampleSet(keys...), nil, nil)
		for _, want := range []int{fresh, fresh, spent} {
			d.ask(t, "GET", "/status", bearer(keyAll)).check(t, name+", before", want)
		}
		changed := slices.Clone(keys)
		c.change(&changed[0])
		for range 2 { // the second reload changes nothing
			d.config.set.Store(sampleSet(slices.Clone(changed)...))
			d.gate.access()
		}
		for i, want := range c.first {
			d.ask(t, "GET", "/status", bearer(c.key)).check(t, fmt.Sprint(name, ", request ", i+1), want)
		}
	}
}

// TestWrongKeysAreLimitedByAddress: after twenty wrong keys in a minute, requests with wrong keys
// from the same address are refused. A right key from this address is always served. A request
// without a key does not count.
func TestWrongKeysAreLimitedByAddress(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "staging-login", 3)
	const path = "/pool/staging-login/token"
	for range 30 {
		checkProblem(t, "no key", d.ask(t, "GET", path), 401, kernel.CodeUnauthorized, "")
		checkProblem(t, "an empty one", d.ask(t, "GET", path, bearer("")), 401, kernel.CodeUnauthorized, "")
	}
	for i := range triesAMinute {
		header := []string{bearer(fmt.Sprint("wrong", i)), basic(fmt.Sprint("wrong", i))}[i%2]
		checkProblem(t, "wrong", d.ask(t, "GET", path, header), 401, kernel.CodeUnauthorized, "")
		if i == 10 {
			d.takeOne(t, bearer(keyAll))
		}
	}
	for _, headers := range [][]string{
		{bearer("wrong")}, {basic("wrong")},
		{bearer("wrong"), "X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1"}, // any client can set this header
	} {
		a := d.ask(t, "GET", path, headers...)
		checkProblem(t, "one more", a, 429, kernel.CodeRateLimited, "")
		if retry, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || retry < 30 || retry > 60 {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	d.takeOne(t, bearer(keyAll))
	d.takeOne(t, basic(keyAll))
	d.ask(t, "GET", "/status", bearer(keyStatus)).check(t, "another right key", 200)
	checkProblem(t, "no key", d.ask(t, "GET", path), 401, kernel.CodeUnauthorized, "")
	for _, open := range []string{"/healthz", "/status.css"} {
		d.ask(t, "GET", open, bearer("wrong")).check(t, open+" needs no key", 200)
	}
}
