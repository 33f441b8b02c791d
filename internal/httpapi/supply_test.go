package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/status"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// market is the stock and the providers that a Server reads.
type market struct {
	Pool

	counts pool.Counts
	err    error
	down   bool // all providers are down
}

func (m *market) Look(context.Context, pool.Query) (pool.Counts, error) {
	m.counts.At = time.Now()
	return m.counts, m.err
}

func (m *market) server() *Server {
	file := &fakeConfig{}
	file.set.Store(sampleSet())
	buyer := &fakeBuyer{providers: func(context.Context) []purchase.ProviderStatus {
		if m.down {
			return []purchase.ProviderStatus{{Name: "solver", State: provider.Condition{Kind: provider.StateDown}}}
		}
		return []purchase.ProviderStatus{{Name: "solver", State: provider.Condition{Kind: provider.StateOK}}}
	}}
	return &Server{Deps: Deps{Pool: m, Status: status.NewCollector(status.Sources{File: file, Buyer: buyer})}}
}

// TestARequestDoesNotWaitInVain: no token can come if neither tokens nor orders are there, and nothing can be bought
// now. An operator must act first while a target is paused or refused.
func TestARequestDoesNotWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := func(length time.Duration) string {
			return `{"state":"budget","until":"` + time.Now().Add(length).Format(time.RFC3339) + `"}`
		}
		now := time.Now()
		refused := pool.Brake{Kind: string(pool.BadParameters), Since: now, Every: time.Minute, Next: now.Add(time.Minute)}
		for name, c := range map[string]struct {
			target        targets.Target
			market        market
			out, operator bool
		}{
			"tokens can be bought":       {},
			"a used up budget":           {market: market{counts: pool.Counts{Status: used(time.Hour)}}, out: true},
			"a budget with room again":   {market: market{counts: pool.Counts{Status: used(-time.Second)}}},
			"a used up budget, an order": {market: market{counts: pool.Counts{Status: used(time.Hour), Orders: 1}}},
			"a used up budget, a token":  {market: market{counts: pool.Counts{Status: used(time.Hour), Fresh: 1}}},
			"an outage":                  {market: market{down: true}, out: true},
			"an outage, an order":        {market: market{down: true, counts: pool.Counts{Orders: 1}}},
			"a starved target":           {market: market{counts: pool.Counts{Status: `{"state":"starved"}`}}},
			"a paused target": {market: market{counts: pool.Counts{Brake: pool.Brake{Paused: "by ops"}}}, out: true,
				operator: true},
			"a paused target, an order": {market: market{counts: pool.Counts{Brake: pool.Brake{Paused: "by ops"}, Orders: 1}},
				operator: true},
			"a target paused in the file": {target: targets.Target{Paused: true}, out: true, operator: true},
			"refused parameters":          {market: market{counts: pool.Counts{Brake: refused}}, out: true, operator: true},
			"no answer of the pool":       {market: market{err: errors.New("away"), down: true}},
			"a paused target, no answer":  {target: targets.Target{Paused: true}, market: market{err: errors.New("away")}},
		} {
			target, supply := &c.target, c.market.server()
			testkit.Equal(t, name+", needs an operator", supply.NeedsOperator(t.Context(), target), c.operator)
			testkit.Equal(t, name+", out", supply.IsOut(t.Context(), target, true), c.out)
			testkit.Equal(t, name+", out apart from outages", supply.IsOut(t.Context(), target, false), c.out && !c.market.down)
		}
	})
}
