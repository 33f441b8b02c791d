package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// When a reload replaces the simulated provider by a real service, poold buys nothing from this
// service for a target with `simulated_only: true`. This holds for the depth, a warm window,
// `on_empty: solve` and POST /solve for its identity. Each refusal and the status give the reason.
func TestSimulatedOnlyBuysNothingFromARealService(t *testing.T) {
	t.Parallel()
	service := simulatedtest.New(simulatedtest.Setup{Median: 50 * time.Millisecond})
	defer service.Close()
	server := httptest.NewServer(service)
	defer server.Close()
	const targets = "solve: {owner: q, pages: ['https://example.com/*'], budget: {per_hour: 100}}\ntargets:\n" +
		"  demo: {type: turnstile, sitekey: demo, pageurl: 'https://example.com/demo', owner: q, depth: 2, " +
		"simulated_only: true, on_empty: solve, warm: [{cron: '* * * * *', tokens: 3, for: 1h}]}\n" +
		"  mine: {type: turnstile, sitekey: mine, pageurl: 'https://example.com/mine', owner: q, depth: 2}\n"
	path := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, path, "providers: [{name: own, protocol: simulated, first_poll: 100ms, poll_interval: 100ms}]\n"+targets)
	p := startPoold(t, path, "")
	testkit.Within(t, 20*time.Second, "a simulated order",
		func() bool { at := p.target("demo"); return at.InFlight+at.Fresh > 0 })
	writeFile(t, path, fmt.Sprintf(
		"providers: [{name: paid, url: '%s', key: key-of-the-test, first_poll: 100ms, poll_interval: 100ms, "+
			"price_per_1000: 1}]\n", server.URL)+targets)
	p.order(http.MethodPost, "/-/reload", "", http.StatusNoContent)
	testkit.Within(t, 20*time.Second, "the end of the simulated orders",
		func() bool { at := p.target("demo"); return at.InFlight == 0 && at.State == "paused" })
	p.order(http.MethodDelete, "/pool/demo/tokens", "", http.StatusNoContent)
	p.order(http.MethodPost, "/pool/demo/resume", "", http.StatusConflict)

	const reason = "`simulated_only: true` in the configuration file forbids purchases from a real provider"
	const solve = `{"type":"turnstile","sitekey":"demo","pageurl":"https://example.com/demo"}`
	for what, ask := range map[string][2]string{
		"a take": {"/pool/demo/token?wait=0s", ""}, "on_empty: solve": {"/pool/demo/token", ""},
		"POST /solve": {"/solve", solve},
	} {
		answer, code, err := p.request(t.Context(), http.DefaultClient, ask[0], ask[1], "Content-Type", "application/json")
		if err != nil || code != http.StatusServiceUnavailable || !strings.Contains(string(answer), `"paused"`) ||
			!strings.Contains(string(answer), reason) {
			t.Errorf("%s: %d %v\n%s", what, code, err, answer)
		}
	}
	if at := p.target("demo"); at.State != "paused" || at.Want != 0 || !strings.Contains(at.Reason, reason) {
		t.Errorf("the status is %+v", at)
	}

	// The service sells tokens for the other target. So it would also have sold tokens for the
	// target with `simulated_only: true`.
	testkit.Within(t, 20*time.Second, "tokens of the other target", func() bool { return p.target("mine").Fresh == 2 })
	for _, sale := range service.Sold() {
		testkit.Equal(t, "the site key of a sale", sale.Identity.Sitekey, "mine")
	}
}
