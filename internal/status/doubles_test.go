package status

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/strictjson"
	"poold/internal/targets"
)

// day is a time with milliseconds, so that a test fails if the milliseconds are lost.
var day = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// fixedFile is a configuration file that a test edits.
type fixedFile struct {
	mu       sync.Mutex // guards set
	set      *targets.Set
	problems []targets.Problem
}

func (f *fixedFile) Current() *targets.Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set
}

func (f *fixedFile) Status() targets.Status {
	return targets.Status{LoadedAt: day, OK: true, Problems: f.problems}
}

// fixedStock answers each survey from a map.
type fixedStock struct {
	mu      sync.Mutex // guards stocks
	stocks  map[captcha.ID]pool.Stock
	surveys atomic.Int64
	queries []pool.Query // queries of the last survey
	hours   []pool.Period
	// If the function `before` is not nil, it is called before each survey, and the survey returns its
	// error.
	before func(ctx context.Context) error

	spent      map[string][2]int // of the last hour and day, by scope
	spentFails error
	unrecorded int64
	guests     pool.GuestStock
	beforeAll  func(ctx context.Context) error // likewise before LookGuests
}

func (f *fixedStock) LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	f.surveys.Add(1)
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = slices.Clone(queries)
	stocks := make([]pool.Stock, len(queries))
	for i, q := range queries {
		stocks[i] = f.stocks[q.ID]
	}
	return stocks, nil
}

// change replaces a stock while other goroutines may call LookAll.
func (f *fixedStock) change(id captcha.ID, s pool.Stock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stocks[id] = s
}

func (f *fixedStock) Hours(ctx context.Context, _ captcha.ID) ([]pool.Period, error) {
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return nil, err
		}
	}
	return f.hours, nil
}

func (f *fixedStock) LookGuests(ctx context.Context) (pool.GuestStock, error) {
	if f.beforeAll != nil {
		if err := f.beforeAll(ctx); err != nil {
			return pool.GuestStock{}, err
		}
	}
	return f.guests, nil
}

func (f *fixedStock) Spent(_ context.Context, scope string) (hour, day int, err error) {
	return f.spent[scope][0], f.spent[scope][1], f.spentFails
}

func (f *fixedStock) Outbox(_ context.Context, stream string) (waiting, dropped int64, err error) {
	if stream != pool.Ends {
		return 0, 0, redisdb.ErrDown
	}
	return 0, f.unrecorded, nil
}

// decided is a stock for which a decision has noted a status.
func decided(s pool.Stock, noted refill.Status) pool.Stock {
	s.Status = string(strictjson.Encode(noted))
	return s
}

// fixedBuyer is a buyer whose results are its fields.
type fixedBuyer struct {
	providers      []purchase.Status
	letters, aside int
	stranded       []purchase.Stranded
}

// Providers returns no providers if ctx has ended.
func (f *fixedBuyer) Providers(ctx context.Context) []purchase.Status {
	if ctx.Err() != nil {
		return nil
	}
	return f.providers
}

func (f *fixedBuyer) Stranded() []purchase.Stranded { return f.stranded }

func (f *fixedBuyer) DeadLetterCount() (letters, aside int) { return f.letters, f.aside }

type fixedSavings struct {
	days   []dedup.SavingsDay
	before func(ctx context.Context) error // called first; if it fails, the call fails with its error. nil = no-op
}

func (f *fixedSavings) Days(ctx context.Context) ([]dedup.SavingsDay, error) {
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return nil, err
		}
	}
	return f.days, nil
}

func newTarget(name string) targets.Target {
	identity := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", Pageurl: "https://" + name + ".example.com/"}
	return targets.Target{
		Name: name, Identity: identity, ID: identity.ID(), Depth: 5, Refill: targets.RefillFixed,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, OnEmpty: targets.OnEmptyFail, Owner: "qa@example.com",
	}
}

func newSet(list ...targets.Target) *targets.Set {
	return &targets.Set{
		Redis:     targets.Redis{URL: "redis://127.0.0.1:6379", Prefix: "captcha"},
		Providers: []targets.Provider{{Name: "solver", API: targets.APILegacy, Profile: "generic", Concurrency: 20, CallbackURL: "https://poold.example.com"}},
		Targets:   list,
	}
}

// sources returns the sources of a daemon with an empty stock and one provider that is ok.
func sources(set *targets.Set) (Sources, *fixedStock) {
	stock := &fixedStock{stocks: map[captcha.ID]pool.Stock{}, spent: map[string][2]int{}}
	buyer := &fixedBuyer{providers: []purchase.Status{{Name: "solver", State: provider.State{Kind: provider.StateOK}, Concurrency: 20}}}
	return Sources{
		File: &fixedFile{set: set}, Stock: stock, Health: up, Purchases: buyer, DeadLetters: buyer,
		Savings: &fixedSavings{}, CallsPerToken: func(string) float64 { return 4.26 },
		Log: slog.New(slog.DiscardHandler), RedisMode: "single", Version: "1.2.3", StartedAt: day,
	}, stock
}

func up() redisdb.Health { return redisdb.Health{Up: true} }

func encoded(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	return s.JSON()
}

type fixedHealth history.Health

func (h fixedHealth) Health() history.Health { return history.Health(h) }

type fixedAudit history.AuditHealth

func (a fixedAudit) Health() history.AuditHealth { return history.AuditHealth(a) }
