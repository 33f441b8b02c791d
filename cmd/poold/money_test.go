package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
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
	const config = "server:\n  keys:\n  - {name: ops, key: key-of-operators-0, scopes: [token, status]}\n" +
		"  - {name: ci, key: key-of-the-callers, scopes: [token], budget: {money_per_day: 1.5}}\n" +
		"providers: [{name: own, protocol: simulated, first_poll: 100ms, poll_interval: 100ms, price_per_1000: 1000}]\n" +
		"currency: USD\nowners: {qa@example.com: {budget: {money_per_month: %s}}}\n" +
		"defaults: {owner: qa@example.com, depth: 3}\ntargets:\n" +
		"  a: {type: turnstile, sitekey: a, pageurl: 'https://example.com/a'}\n" +
		"  b: {type: turnstile, sitekey: b, pageurl: 'https://example.com/b'}\n"
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
	const reason = "the budget of owner qa@example.com is used up: 4 USD of 4.5 USD in this UTC month; " +
		"there is room again at "
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
		if _, code, err := ci.take(t.Context(), http.DefaultClient, name, "", "Idempotency-Key", key); err != nil ||
			code != http.StatusOK {
			t.Fatalf("take %d: %d %v", i, code, err)
		}
	}
	answer, code, err := ci.request(t.Context(), http.DefaultClient, "/pool/"+name+"/token?wait=20s", "")
	if err != nil || code != http.StatusServiceUnavailable || !strings.Contains(string(answer), `"budget_exhausted"`) ||
		!strings.Contains(string(answer), "the budget of this key is used up: 2 USD of 1.5 USD on this UTC day") {
		t.Errorf("a take beyond the money: %d %v\n%s", code, err, answer)
	}
	testkit.Within(t, 10*time.Second, "the metrics", func() bool {
		m := p.metrics()
		return m[`poold_budget_used{target="owner:qa@example.com",window="money_month"}`] == 4 &&
			m[`poold_budget_used{target="key:ci",window="money_day"}`] == 2
	})
	tells := func(want ...string) {
		testkit.Within(t, 40*time.Second, "the events "+strings.Join(want, ", "), func() bool {
			var list struct{ Events []events.Event }
			getJSON(t, p.URL+"/events", p.key, &list)
			texts := ""
			for _, e := range slices.Backward(list.Events) {
				texts += string(e.Kind) + " " + e.Subject + " " + e.Text + "\n"
			}
			for _, text := range want { // in this order
				_, after, is := strings.Cut(texts, text)
				if texts = after; !is {
					return false
				}
			}
			return true
		})
	}
	const usedUp, ok = "budget_used_up owner:qa@example.com The budget of owner qa@example.com is used up: ",
		"budget_ok owner:qa@example.com "
	tells("budget_used_up key:ci The budget of key ci is used up: 2 USD of 1.5 USD on this UTC day: " +
		"the key gets no tokens; there is room again at ")
	tells(usedUp + "4 USD of 4.5 USD in this UTC month: nothing is bought")

	p.Write(fmt.Sprintf(config, "6"))
	testkit.Within(t, 20*time.Second, "orders for the money that the reload added",
		func() bool { n, _ := bought(); return n == 6 })
	// The end of a raised budget is told again, and so is the next end of the same one after it had room.
	tells(usedUp+"4 USD of 4.5", usedUp+"6 USD of 6")
	p.Write(fmt.Sprintf(config, "60"))
	tells(usedUp+"6 USD of 6", ok)
	p.Write(fmt.Sprintf(config, "6"))
	testkit.Within(t, 10*time.Second, "the limit of the file", func() bool {
		return p.metrics()[`poold_budget_limit{target="owner:qa@example.com",window="money_month"}`] == 6
	})
	if _, code, err := p.take(t.Context(), http.DefaultClient, name, ""); err != nil || code != http.StatusOK {
		t.Errorf("a take from the stock: %d %v", code, err)
	}
	tells(usedUp+"6 USD of 6", ok, usedUp)
	// A budget with room for the missing tokens and one more is nearly used up, and refuses nothing.
	used := p.metrics()[`poold_budget_used{target="owner:qa@example.com",window="money_month"}`]
	for _, name := range []string{"a", "b"} {
		at := p.target(name)
		used += float64(3 - at.Fresh - at.InFlight)
	}
	p.Write(fmt.Sprintf(config, fmt.Sprint(used+1.2)))
	tells(ok, usedUp, "budget_near owner:qa@example.com The budget of owner qa@example.com is nearly used up: ")
}
