package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/purchase/choice"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/replicas"
	"poold/internal/strictjson"
	"poold/internal/targets"
)

// day is a time with milliseconds, so that a test fails if the milliseconds are lost.
var day = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// fixedFile is a configuration file that a test edits.
type fixedFile struct {
	set      *targets.Set
	problems []targets.Problem
	ok       bool
}

func (f *fixedFile) Current() *targets.Set { return f.set }

func (f *fixedFile) Status() targets.FileStatus {
	return targets.FileStatus{LoadedAt: day, OK: f.ok, Problems: f.problems}
}

// fixedPool has what Redis has. A test may set the function `before`, which is called before each read and whose error
// the read returns.
type fixedPool struct {
	stocks  map[captcha.ID]pool.Stock
	totals  pool.Totals
	hours   []pool.Period
	before  func(ctx context.Context, call string) error
	surveys atomic.Int64                 // exchanges of a survey
	queries atomic.Pointer[[]pool.Query] // of the last exchange
}

func nothing(context.Context, string) error { return nil }

func (f *fixedPool) Stocks(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	f.surveys.Add(1)
	f.queries.Store(&queries)
	stocks := make([]pool.Stock, len(queries))
	for i, q := range queries {
		stocks[i] = f.stocks[q.ID]
		stocks[i].At = day
	}
	return stocks, f.before(ctx, "Stocks")
}

func (f *fixedPool) Hours(ctx context.Context, _ captcha.ID) ([]pool.Period, error) {
	return f.hours, f.before(ctx, "Hours")
}

func (f *fixedPool) Totals(ctx context.Context, _ ...string) (pool.Totals, error) {
	return f.totals, f.before(ctx, "Totals")
}

// decided is a stock for which a decision has noted a status.
func decided(s pool.Stock, noted refill.Status) pool.Stock {
	s.Status = string(strictjson.Encode(noted))
	return s
}

// fixedBuyer is a buyer whose results are its fields.
type fixedBuyer struct {
	providers []purchase.ProviderStatus
	letters   int
}

func (f *fixedBuyer) Providers(context.Context) []purchase.ProviderStatus { return f.providers }
func (f *fixedBuyer) DeadLetterCount() int                                { return f.letters }

func newTarget(name string) targets.Target {
	identity := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",
		Pageurl: "https://" + name + ".example.com/"}
	return targets.Target{
		Name: name, Identity: identity, ID: identity.ID(), Depth: 5, Refill: targets.RefillFixed,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, OnEmpty: targets.OnEmptyFail, Owner: "qa@example.com",
	}
}

func newSet(list ...targets.Target) *targets.Set {
	return &targets.Set{
		Redis: targets.Redis{URL: "redis://127.0.0.1:6379", Prefix: "captcha"},
		Providers: []targets.Provider{
			{Name: "solver", Protocol: targets.ProtocolInPHP, Concurrency: 20, CallbackURL: "https://poold.example.com"}},
		Targets: list,
	}
}

func setOf(n int) *targets.Set {
	list := make([]targets.Target, n)
	for i := range list {
		list[i] = newTarget(fmt.Sprintf("t%05d", i))
	}
	return newSet(list...)
}

// sources returns the sources of a daemon with an empty stock and one provider that is ok.
func sources(set *targets.Set) (Sources, *fixedPool) {
	stock := &fixedPool{stocks: map[captcha.ID]pool.Stock{}, before: nothing}
	buyer := &fixedBuyer{providers: []purchase.ProviderStatus{
		{Name: "solver", State: provider.Condition{Kind: provider.StateOK}, Concurrency: 20}}}
	return Sources{
		File: &fixedFile{set: set, ok: true}, Pool: stock, Buyer: buyer,
		Outcomes: func() []choice.Comparison { return nil },
		Replicas: func() []replicas.Replica { return nil },
		Health:   func() redisdb.Health { return redisdb.Health{Up: true} },
		Webhook:  func() string { return "" },
		Log:      slog.New(slog.DiscardHandler), RedisMode: "single", Version: "1.2.3", StartedAt: day,
	}, stock
}
