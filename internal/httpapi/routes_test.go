package httpapi

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestEachRouteRefusesExactly sends requests of each kind to each route. testdata/rights.txt has the status of each
// refusal. A refused request changes nothing and does not reach the stock.
func TestEachRouteRefusesExactly(t *testing.T) {
	const evil, cross = "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"
	const proxy, host = "X-Forwarded-For: 192.0.2.1", "Host: poold.example.com"
	of := func(scope targets.Scope) []string { return []string{bearer("canary-key-" + string(scope))} }
	keys := allKeys()
	for _, scope := range allKeys()[0].Scopes {
		keys = append(keys, targets.Key{Name: string(scope), SHA256: sha256.Sum256([]byte("canary-key-" + string(scope))),
			Scopes: []targets.Scope{scope}})
	}
	// "" is no key all the same
	keys = append(keys, targets.Key{Name: "empty", SHA256: sha256.Sum256(nil), Scopes: keys[0].Scopes})
	keyless, keyed := start(t, sampleSet(), nil, nil), start(t, sampleSet(keys...), nil, nil)
	columns := []struct {
		name, what string
		*daemon
		target  string
		senders [][]string // their headers; each route treats them alike
	}{
		{"local", "without keys: a program of this machine, also with some key", keyless, "checkout",
			[][]string{nil, {bearer(keyStatus)}}},
		{"host", "without keys: another Host", keyless, "checkout", [][]string{{host}}},
		{"site", "without keys: another Origin, a page of another site, a link in one, a proxy", keyless, "checkout",
			[][]string{{evil}, {cross}, {"Referer: https://evil.example/"}, {proxy}}},
		{"wrong", "no key, a wrong or empty one, one without a scheme, a part of one, a stranger without a key", keyed,
			"checkout", [][]string{nil, {bearer("canary-key-wrong")}, {"Authorization: Bearer "}, {basic("")},
				{"Authorization: " + keyAll}, {bearer(keyAll[:len(keyAll)-1])}, {host, evil, cross, proxy}}},
		{"key", "a key of all scopes: a Bearer also of another site, a Basic also behind a proxy", keyed, "checkout",
			[][]string{{host, evil, cross, proxy, bearer(keyAll)}, {basic(keyAll)}, {basic(keyAll), host, proxy}}},
		{"basic", "a Basic that a browser adds for another Origin or a page of another site", keyed, "checkout",
			[][]string{{basic(keyAll), evil}, {basic(keyAll), cross}}},
		{"token", "a key with this scope alone", keyed, "checkout", [][]string{of(targets.ScopeToken)}},
		{"solve", "a key with this scope alone", keyed, "checkout", [][]string{of(targets.ScopeSolve)}},
		{"status", "a key with this scope alone", keyed, "checkout", [][]string{of(targets.ScopeStatus)}},
		{"admin", "a key with this scope alone", keyed, "checkout", [][]string{of(targets.ScopeAdmin)}},
		{"its", "a key of some targets, for one of them", keyed, "staging-login", [][]string{{bearer(keyStaging)}}},
		{"others", "a key of some targets, for another one", keyed, "checkout", [][]string{{bearer(keyStaging)}}},
	}
	var legend, head, table strings.Builder
	for _, c := range columns {
		_, _ = fmt.Fprintf(&legend, "%-6s %s\n", c.name, c.what)
		_, _ = fmt.Fprintf(&head, " %-6s", c.name)
	}
	for _, rt := range keyed.routes() {
		row := fmt.Sprintf("%-34s", rt.path)
		for _, c := range columns {
			path := strings.NewReplacer(":target", c.target, ":id", "tok1", ":provider", "solver", ":order", "o",
				":secret", "s", ":sitekey", "k", ":date", "2026-01-02", ":name", "ci", ":profile", "cmdline").Replace(rt.path)
			var cells []string
			for _, headers := range c.senders {
				for _, method := range rt.methods {
					c.forgetWrongKeys()
					before := c.stock.countCalls() + len(c.events.all())
					a, cell := c.ask(t, method, path, headers...), "."
					if slices.Contains([]int{401, 403, 421}, a.status) {
						cell = fmt.Sprint(a.status)
						after := c.stock.countCalls() + len(c.events.all())
						testkit.Equal(t, a.asked+", "+c.what+": calls and changes after a refusal", after, before)
					}
					cells = append(cells, cell)
				}
			}
			row += fmt.Sprintf(" %-6s", strings.Join(slices.Compact(cells), "/"))
		}
		table.WriteString(strings.TrimSpace(row) + "\n")
	}
	testkit.Published(t, "testdata/rights.txt", fmt.Sprintf("%s\n%-34s%s\n%s", &legend, "",
		strings.TrimRight(head.String(), " "), &table))
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
