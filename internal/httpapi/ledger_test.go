package httpapi

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"poold/internal/pool"
)

// TestLedger: every token that was bought is somewhere, and /metrics alone is
// enough to add that up, as the README says.
func TestLedger(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	stock := pool.Stock{
		Fresh: 13, Orders: 29, Bought: 17, Unknown: 3,
		Figures: pool.Figures{
			Requests: 400, Hits: 211, Waited: 101, Misses: 53, Replays: 59, Returned: 7, Solved: 353,
			Expired: 23, Failed: 31, Lost: 2, Discarded: 12, Accepted: 71, Rejected: 73, Spent: 79,
		},
	}
	f := &stock.Figures
	f.Bought = f.Hits + f.Waited - f.Returned + f.Expired + f.Failed + f.Lost + f.Discarded + int64(stock.Fresh+stock.Bought)
	d.stock.survey = func(_ context.Context, queries []pool.Query) ([]pool.Stock, error) {
		stocks := make([]pool.Stock, len(queries))
		stocks[1] = stock
		return stocks, nil
	}
	figures := map[string]float64{} // of staging-login, by name and other labels
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
