package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/testkit"
)

// order sends a request of an operator or a caller, and expects the given status.
func (p *process) order(method, path, body string, want int) {
	p.t.Helper()
	request, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != want {
		p.t.Errorf("%s %s: %s, want %d", method, path, response.Status, want)
	}
}

// If an operator pauses, resumes or flushes a target at one replica, the change also takes effect
// at the other replica. A report at either replica reaches the provider.
func TestOperatorsActOnAllReplicas(t *testing.T) {
	t.Parallel()
	const depth = 4
	w := newWorld(t, quick(), terms{depth: depth, provider: ", price_per_1000: 3"})
	one, two := w.start(t), w.start(t)
	w.atRest(t, one, 20*time.Second)

	one.order(http.MethodPost, "/pool/login/pause", "", http.StatusNoContent)
	testkit.Within(t, 20*time.Second, "the other replica to know", func() bool { return two.target("login").State == "paused" })
	h, code, err := two.take(t.Context(), http.DefaultClient, "login", "")
	if code != http.StatusOK {
		t.Fatal(code, err)
	}
	time.Sleep(2 * time.Second)
	if n := ledger(t, w.provider).Totals.Submitted; n != depth {
		t.Errorf("%d tasks were bought while paused", n-depth)
	}
	two.order(http.MethodPost, "/pool/login/resume", "", http.StatusNoContent)
	w.atRest(t, one, 20*time.Second)
	if n := ledger(t, w.provider).Totals.Submitted; n != depth+1 {
		t.Errorf("%d tasks were bought, want %d", n, depth+1)
	}

	// The token is taken at one replica and reported at the other.
	one.order(http.MethodPost, "/pool/login/token/"+h.ID+"/report", `{"outcome":"rejected"}`, http.StatusNoContent)
	two.order(http.MethodPost, "/pool/login/token/"+h.ID+"/report", `{"outcome":"accepted"}`, http.StatusConflict)
	two.order(http.MethodPost, "/pool/login/token/"+h.ID+"x/report", `{"outcome":"accepted"}`, http.StatusNotFound)
	testkit.Within(t, 20*time.Second, "the report to arrive", func() bool {
		return sales(ledger(t, w.provider))[hash(h.Token)].Reported == "bad"
	})

	two.order(http.MethodDelete, "/pool/login/tokens", "", http.StatusNoContent)
	testkit.Within(t, 20*time.Second, "the stock to be bought anew", func() bool {
		s := one.target("login")
		return s.Discarded == depth && s.Fresh == depth && s.InFlight == 0
	})
	m := one.metrics()
	if bought := one.balance(); bought != 2*depth+1 {
		t.Errorf("%d bought, want %d", bought, 2*depth+1)
	}
	if spent := m["poold_spend_total"]; spent < 0.0269 || spent > 0.0271 {
		t.Errorf("spent %v for %d solves at 3 per 1000", spent, 2*depth+1)
	}
	if m[`poold_reports_total{outcome="rejected",target="login"}`] != 1 {
		t.Errorf("the rejection is not counted: %v", m["poold_reports_total"])
	}
}

// Two replicas serve the demand of an adaptive target together. The stock plus the orders, less the
// pending callers, never exceeds the depth, and the ledger equals the provider's ledger. The
// learned state is kept for the next start.
func TestAdaptiveOverReplicas(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const depth = 8
	w := newWorld(t, quick(), terms{depth: depth, target: ", refill: adaptive"})
	replicas := []*process{w.start(t), w.start(t)}
	time.Sleep(time.Second)
	if n := ledger(t, w.provider).Totals.Submitted; n != 0 {
		t.Errorf("%d tasks were bought before anybody asked", n)
	}
	hits := 0
	for i := range 120 {
		if _, code, err := replicas[i%2].take(t.Context(), http.DefaultClient, "login", "?wait=0s"); code == http.StatusOK {
			hits++
		} else if code != http.StatusServiceUnavailable {
			t.Fatal(code, err)
		}
		if s := replicas[(i+1)%2].target("login"); s.Fresh+s.InFlight-s.Waiting > depth {
			t.Errorf("%d in stock and %d on order for a depth of %d", s.Fresh, s.InFlight, depth)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if hits < 70 {
		t.Errorf("%d of 120 requests found a token", hits)
	}
	// A new target has a credit of 15 tokens. Each of the 120 requests increased the credit by at
	// most three tokens.
	const atFirst = 15
	if n := replicas[1].target("login").Credit; n < 2*atFirst {
		t.Errorf("the credit is %g", n)
	}
	// One replica is killed, and the other replica stops.
	_ = replicas[0].command.Process.Kill()
	if err := replicas[1].stop(); err != nil {
		t.Error(err)
	}
	next := w.start(t)
	testkit.Within(t, 20*time.Second, "what was learned to be read", func() bool { return next.target("login").Credit > 2*atFirst })
	testkit.Within(t, 20*time.Second, "the orders to be collected", func() bool { return next.target("login").InFlight == 0 })
	if bought, books := next.balance(), ledger(t, w.provider); bought != books.Totals.Submitted {
		t.Errorf("poold counts %d bought, the provider sold %d", bought, books.Totals.Submitted)
	}
	if strings.Contains(next.output.String(), "learned again") {
		t.Error("what was learned could not be read")
	}
	t.Logf("%d of 120 found a token, %d bought", hits, ledger(t, w.provider).Totals.Submitted)
}
