package httpapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

// TestARequestDoesNotWaitInVain: no token can come if neither tokens nor orders are there, and nothing can be bought
// now. An operator must act first while a target is paused or refused.
func TestARequestDoesNotWaitInVain(t *testing.T) {
	inBubble(t, sampleSet(), func(t *testing.T, d *daemon) {
		used := func(length time.Duration) string {
			return `{"state":"budget","until":"` + time.Now().Add(length).Format(time.RFC3339) + `"}`
		}
		now, paused := time.Now(), pool.Brake{Paused: "by ops"}
		refused := pool.Brake{Kind: string(pool.BadParameters), Since: now, Every: time.Minute, Next: now.Add(time.Minute)}
		for name, c := range map[string]struct {
			inFile, outage bool // paused in the file, all providers are down
			counts         pool.Counts
			err            error // of the pool
			out, operator  bool
		}{
			"tokens can be bought":        {},
			"a used up budget":            {counts: pool.Counts{Status: used(time.Hour)}, out: true},
			"a budget with room again":    {counts: pool.Counts{Status: used(-time.Second)}},
			"a used up budget, an order":  {counts: pool.Counts{Status: used(time.Hour), Orders: 1}},
			"a used up budget, a token":   {counts: pool.Counts{Status: used(time.Hour), Fresh: 1}},
			"an outage":                   {outage: true, out: true},
			"an outage, an order":         {outage: true, counts: pool.Counts{Orders: 1}},
			"a starved target":            {counts: pool.Counts{Status: `{"state":"starved"}`}},
			"a paused target":             {counts: pool.Counts{Brake: paused}, out: true, operator: true},
			"a paused target, an order":   {counts: pool.Counts{Brake: paused, Orders: 1}, operator: true},
			"a target paused in the file": {inFile: true, out: true, operator: true},
			"refused parameters":          {counts: pool.Counts{Brake: refused}, out: true, operator: true},
			"no answer of the pool":       {err: errors.New("away"), outage: true},
			"a paused target, no answer":  {inFile: true, err: errors.New("away")},
		} {
			set := sampleSet() // a new one, because the outage of an old one is known for a second
			target := &set.Targets[0]
			target.Paused, d.stock.counts, c.counts.At = c.inFile, &c.counts, now
			d.config.set.Store(set)
			d.stock.failCalls("look", c.err)
			d.buyer.providers = func(context.Context) []purchase.ProviderStatus {
				state := map[bool]provider.StateKind{false: provider.StateOK, true: provider.StateDown}[c.outage]
				return []purchase.ProviderStatus{{Name: "solver", State: provider.Condition{Kind: state}}}
			}
			testkit.Equal(t, name+", needs an operator", d.NeedsOperator(t.Context(), target), c.operator)
			testkit.Equal(t, name+", out", d.IsOut(t.Context(), target, true), c.out)
			testkit.Equal(t, name+", out apart from outages", d.IsOut(t.Context(), target, false), c.out && !c.outage)
		}
	})
}
