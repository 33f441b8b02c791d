package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/testkit"
)

// The money of an owner limits all its targets together, and the money of a key the tokens that it takes, of which a
// replay costs nothing. The reasons, the metrics and the events show both, and a reload raises a
// limit at once.
func TestMoneyOfOwnersAndKeys(t *testing.T) {
	t.Parallel()
	if left := time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)); left < 2*time.Minute {
		time.Sleep(left) // else the UTC day could end during the test
	}
	const config = "server:\n  keys:\n  - {name: ops, key: key-of-operators-0, scopes: [token, status]}\n  - {name: ci, key: key-of-the-callers, scopes: [token], budget: {money_per_day: 1.5}}\n" +
		"providers: [{name: own, protocol: simulated, first_poll: 100ms, poll_interval: 100ms, price_per_1000: 1000}]\n" +
		"currency: USD\nowners: {qa@example.com: {budget: {money_per_month: %s}}}\ndefaults: {owner: qa@example.com, depth: 3}\ntargets:\n" +
		"  a: {type: turnstile, sitekey: a, pageurl: 'https://example.com/a'}\n  b: {type: turnstile, sitekey: b, pageurl: 'https://example.com/b'}\n"
	path := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, path, fmt.Sprintf(config, "4.5"))
	p := startPoold(t, path, "key-of-operators-0")
	bought := func() (n int64, reasons string) {
		for _, name := range []string{"a", "b"} {
			at := p.target(name)
			n, reasons = n+at.Solved, reasons+at.Reason
		}
		return n, reasons
	}
	const reason = "the budget of owner qa@example.com is used up: 4 of 4.5 a month spent; there is room again at "
	testkit.Within(t, 20*time.Second, "the end of the money", func() bool {
		n, reasons := bought()
		return n == 4 && strings.Contains(reasons, reason)
	})

	ci := &process{p.Process, t, "key-of-the-callers"}
	name := "a"
	if p.target("a").Fresh < 2 {
		name = "b"
	}
	for i, key := range []string{"one", "one", "two"} {
		if _, code, err := ci.take(t.Context(), http.DefaultClient, name, "", "Idempotency-Key", key); err != nil || code != http.StatusOK {
			t.Fatalf("take %d: %d %v", i, code, err)
		}
	}
	answer, code, err := ci.request(t.Context(), http.DefaultClient, "/pool/"+name+"/token?wait=20s", "")
	if err != nil || code != http.StatusServiceUnavailable || !strings.Contains(string(answer), `"budget_exhausted"`) ||
		!strings.Contains(string(answer), "the budget of this key is used up: 2 of 1.5 a day spent") {
		t.Errorf("a take beyond the money: %d %v\n%s", code, err, answer)
	}
	testkit.Within(t, 10*time.Second, "the metrics", func() bool {
		m := p.metrics()
		return m[`poold_budget_used{target="owner:qa@example.com",window="money_month"}`] == 4 && m[`poold_budget_used{target="key:ci",window="money_day"}`] == 2
	})
	testkit.Within(t, 40*time.Second, "events of both budgets", func() bool {
		var list struct{ Events []events.Event }
		getJSON(t, p.URL+"/events", p.key, &list)
		texts := ""
		for _, e := range list.Events {
			texts += string(e.Kind) + " " + e.Subject + " " + e.Text + "\n"
		}
		return strings.Contains(texts, "budget_used_up owner:qa@example.com The budget of owner qa@example.com is used up: 4 of 4.5 a month spent: nothing is bought") &&
			strings.Contains(texts, "budget_used_up key:ci The budget of key ci is used up: 2 of 1.5 a day spent: the key gets no tokens until ") &&
			strings.Contains(texts, "budget_near owner:qa@example.com Of the budget of owner qa@example.com 4 USD of 4.5 USD in this UTC month are used; raise")
	})

	p.Write(fmt.Sprintf(config, "6"))
	testkit.Within(t, 20*time.Second, "orders for the money that the reload added", func() bool { n, _ := bought(); return n == 6 })
}
