package httpapi

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// askRoute sends a request without a body to a route. If the path contains a target, askRoute
// inserts a target's name.
func (d *daemon) askRoute(t *testing.T, rt *route, method, target string, headers ...string) answer {
	t.Helper()
	path := strings.NewReplacer(":target", target, ":id", "tok1", ":provider", "solver", ":order", "o", ":secret", "s",
		":sitekey", "k", ":date", "2026-01-02", ":name", "ci", ":profile", "cmdline").Replace(rt.path)
	return d.ask(t, method, path, headers...)
}

// These are the routes by their rights. The paths are listed here, so that a wrong scope in the
// table of routes fails the test. A new route also needs an entry here.
var (
	probes  = []string{"/callback/:provider/:order/:secret", "/healthz", "/readyz"}
	files   = []string{"/", "/openapi.yaml", "/status.css", "/status.svg", "/htmx.js"}
	clients = []string{"/in.php", "/res.php", "/createTask", "/getTaskResult", "/getBalance", "/reportCorrect",
		"/reportIncorrect", "/reportCorrectRecaptcha", "/reportIncorrectRecaptcha", "/reportIncorrectHcaptcha",
		"/reportIncorrectImageCaptcha", "/reportIncorrectTokenCaptcha"}
	byScope = map[targets.Scope][]string{
		targets.ScopeToken: {"/pool/:target/token", "/pool/:target/token/:id/report"},
		targets.ScopeSolve: {"/solve", "/solve/:id/report"},
		targets.ScopeStatus: {"/pool/:target", "/status", "/status.json", "/metrics", "/events",
			"/history/site/:sitekey", "/history/day/:date", "/history/orders", "/history/active", "/history/order/:id",
			"/history/usage"},
		targets.ScopeAdmin: {
			"/pool/:target/tokens", "/pool/:target/pause", "/pool/:target/resume", "/-/reload", "/dead-letters",
			"/dead-letters/replay", "/debug/pprof/", "/debug/pprof/:profile", "/providers/:provider/probe", "/history/key/:name",
			"/status/act",
		},
	}
	changes = slices.Concat(byScope[targets.ScopeToken], byScope[targets.ScopeSolve],
		[]string{"/pool/:target/tokens", "/pool/:target/pause",
			"/pool/:target/resume", "/providers/:provider/probe", "/-/reload", "/dead-letters/replay", "/status/act"})
	ofAll = []string{"/debug/pprof/", "/debug/pprof/:profile", "/metrics", "/providers/:provider/probe", "/-/reload",
		"/dead-letters", "/dead-letters/replay"}
	ofTarget = []string{"/pool/:target", "/pool/:target/token", "/pool/:target/token/:id/report", "/pool/:target/tokens",
		"/pool/:target/pause", "/pool/:target/resume"}
)

// TestEachRouteRefusesExactly sends one request of each kind to each route. Exactly the listed
// routes refuse the request, with the listed status, and a refused request does not reach the stock.
func TestEachRouteRefusesExactly(t *testing.T) {
	var all []string
	for _, rt := range quietServer(t).routes() {
		all = append(all, rt.path)
	}
	but := func(others ...[]string) []string {
		return slices.DeleteFunc(slices.Clone(all),
			func(path string) bool { return slices.Contains(slices.Concat(others...), path) })
	}
	public := slices.Concat(probes, files, clients)
	type request struct {
		target  string
		headers []string
		refused map[int][]string
	}
	const evil, cross = "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"
	stranger := []string{"Host: poold.example.com", evil, cross, "X-Forwarded-For: 192.0.2.1"}
	keyless := map[string]request{
		"a program of this machine": {"checkout", nil, nil},
		"with a key all the same":   {"checkout", []string{bearer(keyStatus)}, nil},
		"another Host":              {"checkout", []string{"Host: poold.example.com"}, map[int][]string{421: but(probes)}},
		"another Origin":            {"checkout", []string{evil}, map[int][]string{403: but(probes)}},
		"a page of another site":    {"checkout", []string{cross}, map[int][]string{403: but(probes)}},
		"a link in another site": {"checkout", []string{"Referer: https://evil.example/"},
			map[int][]string{403: but(probes)}},
		"a proxy": {"checkout", []string{"X-Forwarded-For: 192.0.2.1"}, map[int][]string{403: but(probes)}},
	}
	unknown := map[int][]string{401: but(public)}
	keyed := map[string]request{
		"without a key":            {"checkout", nil, unknown},
		"a wrong key":              {"checkout", []string{bearer("canary-key-wrong")}, unknown},
		"an empty Bearer":          {"checkout", []string{"Authorization: Bearer "}, unknown},
		"an empty Basic":           {"checkout", []string{basic("")}, unknown},
		"a key without a scheme":   {"checkout", []string{"Authorization: " + keyAll}, unknown},
		"a part of a key":          {"checkout", []string{bearer(keyAll[:len(keyAll)-1])}, unknown},
		"a stranger without a key": {"checkout", stranger, unknown},
		"a Bearer of another site": {"checkout", append(stranger, bearer(keyAll)), nil},
		"a Basic":                  {"checkout", []string{basic(keyAll)}, nil},
		"a Basic behind a proxy": {"checkout",
			[]string{basic(keyAll), "Host: poold.example.com", "X-Forwarded-For: 192.0.2.1"}, nil},
		"a Basic of another Origin": {"checkout", []string{basic(keyAll), evil}, map[int][]string{403: changes}},
		"a Basic of another site":   {"checkout", []string{basic(keyAll), cross}, map[int][]string{403: changes}},
		"a limited key, its target": {"staging-login", []string{bearer(keyStaging)}, map[int][]string{403: ofAll}},
		"a limited key, another target": {"checkout", []string{bearer(keyStaging)},
			map[int][]string{403: append(ofTarget, ofAll...)}},
	}
	keys := allKeys()
	for scope, paths := range byScope {
		name := "canary-key-" + string(scope)
		keys = append(keys, targets.Key{Name: string(scope), SHA256: sha256.Sum256([]byte(name)),
			Scopes: []targets.Scope{scope}})
		keyed["only the scope "+string(scope)] = request{"checkout", []string{bearer(name)},
			map[int][]string{403: but(public, paths)}}
	}
	// "" is no key all the same
	keys = append(keys, targets.Key{Name: "empty", SHA256: sha256.Sum256(nil), Scopes: keys[0].Scopes})
	for kind, set := range map[string]*targets.Set{"keyless": sampleSet(), "keyed": sampleSet(keys...)} {
		d := start(t, set, nil, nil)
		for name, c := range map[string]map[string]request{"keyless": keyless, "keyed": keyed}[kind] {
			for _, rt := range quietServer(t).routes() {
				want := 0
				for status, paths := range c.refused {
					if slices.Contains(paths, rt.path) {
						want = status
					}
				}
				for _, method := range rt.methods {
					d.forgetWrongKeys()
					before := d.stock.countCalls()
					a := d.askRoute(t, &rt, method, c.target, c.headers...)
					got := 0
					if slices.Contains([]int{401, 403, 421}, a.status) {
						got = a.status
					}
					if got != want {
						t.Errorf("%s, %s: %s %s: %d, want refusal %d: %.200s", kind, name, method, rt.path, a.status, want, a.body)
					}
					if n := d.stock.countCalls(); want != 0 && n != before {
						t.Errorf("%s, %s: %s %s: refused, but the stock got %d calls", kind, name, method, rt.path, n-before)
					}
				}
			}
		}
	}
}

// TestRateOfAKey: if a request exceeds the rate of its key, requests are refused until the rate allows
// the next one. Other keys are served meanwhile.
func TestRateOfAKey(t *testing.T) {
	keys := allKeys()
	keys[0].Rate = targets.Rate{Count: 2, Per: time.Hour}
	inBubble(t, sampleSet(keys...), func(t *testing.T, d *daemon) { // a busy machine does not move the bubble's clock
		for range 2 {
			d.handle(t, "GET", "/status.json", "", bearer(keyAll)).check(t, "within the rate", 200)
		}
		a := d.handle(t, "GET", "/status.json", "", bearer(keyAll))
		a.check(t, "beyond the rate", 429, `"code":"rate_limited"`, "the rate of the key all is used up")
		testkit.Equal(t, "Retry-After", a.header.Get("Retry-After"), "1800")
		d.handle(t, "GET", "/metrics", "", bearer(keyStatus)).check(t, "another key", 200)
	})
}
