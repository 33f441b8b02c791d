package httpapi

import (
	"slices"
	"strings"
	"testing"

	"poold/internal/httpapi/kernel"
)

// askRoute sends a request without a body to a route. If the path contains a target, askRoute
// inserts a target's name.
func (d *daemon) askRoute(t *testing.T, rt *kernel.Route, method, target string, headers ...string) answer {
	t.Helper()
	path := strings.NewReplacer(":target", target, ":id", "tok1", ":provider", "solver", ":order", "o", ":secret", "s",
		":sitekey", "k", ":date", "2026-01-02", ":name", "ci", ":profile", "cmdline").Replace(rt.Path)
	return d.ask(t, method, path, headers...)
}

// TestEachRouteRefusesExactly sends one request of each kind to each route. Exactly the listed
// routes refuse the request, with the listed status. The paths are listed here, so that a wrong
// scope in the table of routes fails the test.
func TestEachRouteRefusesExactly(t *testing.T) {
	probes := []string{"/callback/:provider/:order/:secret", "/healthz", "/readyz"}
	files := []string{"/", "/openapi.yaml", "/status.css", "/status.js", "/status.svg", "/tabs.js", "/uplot.css", "/uplot.js"}
	clients := []string{"/in.php", "/res.php", "/createTask", "/getTaskResult", "/getBalance", "/reportCorrect", "/reportIncorrect",
		"/reportCorrectRecaptcha", "/reportIncorrectRecaptcha", "/reportIncorrectImageCaptcha", "/reportIncorrectTokenCaptcha"}
	takes := []string{"/pool/:target/token", "/pool/:target/token/:id/report", "/solve", "/solve/:id/report"}
	changes := append([]string{"/pool/:target/tokens", "/pool/:target/pause", "/pool/:target/resume",
		"/providers/:provider/probe", "/-/reload", "/dead-letters/replay"}, takes...)
	ofAll := []string{"/debug/pprof/", "/debug/pprof/:profile", "/metrics", "/providers/:provider/probe", "/-/reload", "/dead-letters", "/dead-letters/replay"}
	ofTarget := []string{"/pool/:target", "/pool/:target/token", "/pool/:target/token/:id/report", "/pool/:target/tokens", "/pool/:target/pause",
		"/pool/:target/resume"}
	var all []string
	for _, rt := range new(areas).table() {
		all = append(all, rt.Path)
	}
	but := func(others ...[]string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(path string) bool { return slices.Contains(slices.Concat(others...), path) })
	}
	const evil, cross = "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"
	nothing := map[int][]string{}
	acts := []string{"take", "return", "pause", "resume", "retry", "flush", "bind", "sold", "report"}
	stranger := []string{"Host: poold.example.com", evil, cross, "X-Forwarded-For: 192.0.2.1"}
	for name, c := range map[string]struct {
		keyless bool // the file has no keys
		target  string
		headers []string
		refused map[int][]string
	}{
		"keyless, a program of this machine": {true, "checkout", nil, nothing},
		"keyless, with a key all the same":   {true, "checkout", []string{bearer(keyStatus)}, nothing},
		"keyless, another Host":              {true, "checkout", []string{"Host: poold.example.com"}, map[int][]string{421: but(probes)}},
		"keyless, another Origin":            {true, "checkout", []string{evil}, map[int][]string{403: but(probes)}},
		"keyless, a page of another site":    {true, "checkout", []string{cross}, map[int][]string{403: but(probes)}},
		"keyless, a link in another site":    {true, "checkout", []string{"Referer: https://evil.example/"}, map[int][]string{403: but(probes)}},
		"keyless, a proxy":                   {true, "checkout", []string{"X-Forwarded-For: 192.0.2.1"}, map[int][]string{403: but(probes)}},
		"without a key":                      {false, "checkout", nil, map[int][]string{401: but(probes, files, clients)}},
		"a wrong key":                        {false, "checkout", []string{bearer("canary-key-wrong")}, map[int][]string{401: but(probes, files, clients)}},
		"a stranger without a key":           {false, "checkout", stranger, map[int][]string{401: but(probes, files, clients)}},
		"a Bearer of another site":           {false, "checkout", append(stranger, bearer(keyAll)), nothing},
		"a Basic":                            {false, "checkout", []string{basic(keyAll)}, nothing},
		"a Basic behind a proxy":             {false, "checkout", []string{basic(keyAll), "Host: poold.example.com", "X-Forwarded-For: 192.0.2.1"}, nothing},
		"a Basic of another Origin":          {false, "checkout", []string{basic(keyAll), evil}, map[int][]string{403: changes}},
		"a Basic of another site":            {false, "checkout", []string{basic(keyAll), cross}, map[int][]string{403: changes}},
		"a limited key, its target":          {false, "staging-login", []string{bearer(keyStaging)}, map[int][]string{403: ofAll}},
		"a limited key, another target":      {false, "checkout", []string{bearer(keyStaging)}, map[int][]string{403: append(ofTarget, ofAll...)}},
	} {
		t.Run(name, func(t *testing.T) {
			set := sampleSet(allKeys()...)
			if c.keyless {
				set = sampleSet()
			}
			d := start(t, set, nil, nil)
			for _, rt := range new(areas).table() {
				want := 0
				for status, paths := range c.refused {
					if slices.Contains(paths, rt.Path) {
						want = status
					}
				}
				for _, method := range rt.Methods {
					d.forgetWrongKeys()
					before := d.stock.countCalls(acts...)
					a := d.askRoute(t, &rt, method, c.target, c.headers...)
					got := 0
					if slices.Contains([]int{401, 403, 421}, a.status) {
						got = a.status
					}
					if got != want {
						t.Errorf("%s %s: %d, want refusal %d: %.200s", method, rt.Path, a.status, want, a.body)
					}
					if n := d.stock.countCalls(acts...); want != 0 && n != before {
						t.Errorf("%s %s: refused, but the stock got %d calls", method, rt.Path, n-before)
					}
				}
			}
		})
	}
}
