package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// fixedStock tells the same of each target at every survey.
type fixedStock struct {
	Stock
	stocks []pool.Stock
}

func (f *fixedStock) Survey(context.Context, []pool.Query) ([]pool.Stock, error) {
	return append([]pool.Stock{}, f.stocks...), nil
}

func (f *fixedStock) Health() pool.Health { return pool.Health{Up: true} }

// TestDocumentBytes holds a snapshot of fixed figures against a golden file, byte by
// byte: order, spelling and rounding are what programs see.
func TestDocumentBytes(t *testing.T) {
	set := sampleSet()
	set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "a poll each 100ms is unusual"}}
	config := &fakeConfig{problems: []targets.Problem{{File: "pools.yaml", Line: 12, Text: "server.listen changed: it needs a restart"}}}
	config.set.Store(set)
	balance, price := 12.5, 12.0
	shadow := &policy.Shadow{
		Since: day, Span: 3 * time.Hour, Requests: 1000, HitRate: 0.97004, Bought: 1100, Depth: 4, ShadowHitRate: 0.98765, ShadowBought: 2200,
		Need: &policy.Need{MaxWaste: &price, HitRateNow: 0.97, Text: "99 % needs max_waste of about 12 here (now 3): 97.0 %"},
	}
	s := New(Deps{
		Config: config,
		Stock: &fixedStock{stocks: []pool.Stock{
			{NextExpiry: -1, Paused: true},
			{
				Fresh: 3, Orders: 4, Bought: 2, Unknown: 1, Waiting: 2, NextExpiry: 4887 * time.Millisecond, HourUsed: 8, DayUsed: 77,
				Leads:    []time.Duration{19001 * time.Millisecond, 8449 * time.Millisecond, 16387 * time.Millisecond},
				Verdicts: []bool{false, true, true, false, false},
				Figures: pool.Figures{
					Requests: 100, Hits: 97, Waited: 2, Misses: 1, Replays: 4, Bought: 115, Solved: 110, Expired: 5, Failed: 2, Lost: 1,
					Returned: 3, Discarded: 6, Accepted: 9, Rejected: 7, Junk: 8, Spent: 105_123_499,
				},
			},
			{NextExpiry: 33137 * time.Millisecond, Fresh: 1, DayUsed: 20},
		}},
		Refill: &fakeRefill{notes: map[string]refill.Note{
			"staging-login": {Want: 4, State: refill.Starved, Reason: "provider solver is busy", Lead: 18 * time.Second,
				Forecast: 3.21449, Risk: 0.0124, Limit: policy.LimitCredit, Credit: -2.50051, Shadow: shadow},
			"staging-signup": {State: refill.Refused, Reason: "<ERROR_GOOGLEKEY> & more", Failing: true},
		}},
		Buyer: &fakeBuyer{
			providers: func(context.Context, time.Time) []purchase.Status {
				return []purchase.Status{{Name: "solver", State: provider.State{Kind: provider.StateBusy, Reason: "no slot", Balance: &balance}, InFlight: 3, Concurrency: 20, Silent: true}}
			},
			booked:   func() (int, int, error) { return 1234, 20000, nil },
			letters:  make([]purchase.DeadLetter, 2),
			aside:    1,
			stranded: []purchase.Stranded{{Provider: "former", Orders: 6, Until: day}},
		},
		Metrics: NewMetrics("", ""), Log: slog.New(slog.DiscardHandler), RedisMode: "single", Version: "1.2.3", StartedAt: day,
	})
	got, err := json.Marshal(&s.snapshot(t.Context()).status)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "document.json")
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the document is not as it was (-update writes it anew):\n%s", got)
	}
}
