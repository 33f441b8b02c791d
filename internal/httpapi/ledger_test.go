package httpapi

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/solve"
)

// TestMetricsAccountForEveryToken: the equation in docs/metrics.md holds for the metrics, so the
// metrics alone show what became of every bought token.
func TestMetricsAccountForEveryToken(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	target := d.target("staging-login")
	take := func(n int, wait time.Duration) (calls []*pool.Call) {
		t.Helper()
		for range n {
			call := &pool.Call{ID: target.ID, Margin: target.Margin, Wait: wait, MostTickets: 1}
			solve.Identify(call, "", "")
			_, err := d.stock.Pool.Take(t.Context(), call)
			noError(t, err)
			calls = append(calls, call)
		}
		return calls
	}
	order := func() *pool.Order { return d.stock.bought(t, target) }
	flush := func() {
		t.Helper()
		_, err := d.stock.Pool.Flush(t.Context(), target.ID)
		noError(t, err)
	}
	land := func(n int, age time.Duration) {
		t.Helper()
		for range n {
			d.stock.landToken(t, order(), age)
		}
	}
	// The terms of the equation have different values here, so that the test fails if two terms are
	// swapped.
	land(19, 0)
	for _, call := range take(19, 0)[:7] { // counted as hits and as returned
		d.stock.Pool.Cancel(call)
	}
	d.stock.putBack(t, target, 7)
	flush() // discarded: the 7 returned tokens, and one more
	land(1, 0)
	flush()
	for range 3 { // counted as waited
		ref := order()
		landed := make(chan struct{})
		go func() {
			defer close(landed)
			for d.stock.readStock(t, target).Waiting == 0 {
				time.Sleep(time.Millisecond)
			}
			d.stock.landToken(t, ref, 0)
		}()
		take(1, 10*time.Second)
		<-landed
	}
	land(4, 85*time.Second) // expired: in their margin when they land
	for range 5 {           // counted as failed
		d.stock.end(t, order(), pool.End{How: pool.Failed, Reason: "unsolvable"})
	}
	d.stock.end(t, order(), pool.End{How: pool.Lost, Reason: "unknown"})
	land(2, 0)
	for range 6 {
		order()
	}
	d.status.Changed()
	figures := map[string]float64{} // metrics of staging-login, by name and other labels
	for line := range strings.Lines(d.ask(t, "GET", "/metrics").body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(name, `target="staging-login"`) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(line, err)
		}
		figures[name] = n
	}
	total := func(name, labels string) float64 {
		n, there := figures["poold_"+name+"{"+labels+`target="staging-login"}`]
		if !there || n == 0 {
			t.Errorf("no %s %s", name, labels)
		}
		return n
	}
	terms := []float64{
		total("token_requests_total", `outcome="hit",`), total("token_requests_total", `outcome="waited",`), -total("tokens_returned_total", ""),
		total("tokens_expired_total", ""), total("orders_failed_total", ""), total("orders_lost_total", ""), total("tokens_discarded_total", ""),
		total("pool_tokens", ""), total("bought_in_flight", ""),
	}
	sum, seen := 0.0, map[float64]bool{}
	for _, term := range terms {
		sum += term
		if seen[term] {
			t.Errorf("two terms are %v: one could stand for the other", term)
		}
		seen[term] = true
	}
	if bought := total("bought_total", ""); bought != sum {
		t.Errorf("%v bought, %v accounted for: %v", bought, sum, terms)
	}
}
