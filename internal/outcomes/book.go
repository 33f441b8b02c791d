package outcomes

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill/policy/worth"
)

const (
	// readEvery is the interval between two reads of the streams.
	readEvery = time.Second
	// maxPending limits the entries that are not yet written. Further entries are dropped.
	maxPending = 4096
)

// Provider is a provider in the file.
type Provider struct {
	Name  string
	Price func(captcha.Type) float64 // price of one token; negative = unknown
}

// Book contains the estimates of all providers. It implements purchase.Chooser. It is safe for
// concurrent use. No method except Run calls Redis.
type Book struct {
	db        *redisdb.DB
	log       *slog.Logger
	onNewBest func(captcha.Type)

	mu        sync.Mutex
	providers []Provider
	pending   []entry // to be written
	types     map[captcha.Type]*market
	refused   map[refusal]time.Time // last refusal of an identity by a provider
	read      map[pair]string       // id of the last entry that was read
}

// pair is a provider and a type of CAPTCHA.
type pair struct {
	provider string
	kind     captcha.Type
}

// New returns a Book without providers. For some seconds after another provider has got the lowest expected
// cost for a type, Run calls onNewBest once a second, so that targets whose orders failed order again.
func New(db *redisdb.DB, onNewBest func(captcha.Type), log *slog.Logger) *Book {
	return &Book{db: db, log: log, onNewBest: onNewBest, types: map[captcha.Type]*market{}, refused: map[refusal]time.Time{}, read: map[pair]string{}}
}

// SetProviders replaces the providers.
func (b *Book) SetProviders(providers []Provider) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.providers = providers
}

// refusal is a provider that rejects the parameters of an identity.
type refusal struct {
	identity, provider string
}

// avoidFor is how long the orders of an identity avoid a provider after a refusal.
const avoidFor = 10 * time.Minute

// Ended adds the end of an order, unless the provider could not take the order. A refusal says more
// about the identity than about the provider, so it does not count for the provider: only the orders of
// the identity avoid the provider for a while.
func (b *Book) Ended(p purchase.Purchase) {
	if p.Choice == Best || p.Choice == Explore {
		b.mu.Lock()
		b.marketLocked(p.Identity.Type).explorer.Ordered(p.Target == purchase.GuestTarget)
		b.mu.Unlock()
	}
	of := pair{p.Provider, p.Identity.Type}
	switch p.Outcome {
	case pool.Hopeless:
		b.avoid(refusal{string(p.ID), p.Provider})
	case pool.Solved, pool.Expired:
		b.add(entry{pair: of, good: true, lead: p.Solved.Sub(p.Submitted)})
	case pool.Failed, pool.Refused, pool.Lost, pool.Repeated:
		b.add(entry{pair: of})
	}
}

func (b *Book) avoid(r refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := time.Now()
	maps.DeleteFunc(b.refused, func(_ refusal, last time.Time) bool { return at.Sub(last) > avoidFor })
	b.refused[r] = at
}

// Reported adds a caller's report on a token of a provider.
func (b *Book) Reported(provider string, t captcha.Type, caller string, accepted bool) {
	b.add(entry{pair: pair{provider, t}, report: true, good: accepted, caller: caller})
}

func (b *Book) add(e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.providers) > 1 && b.providerLocked(e.provider) != nil && len(b.pending) < maxPending {
		b.pending = append(b.pending, e)
	}
}

func (b *Book) providerLocked(name string) *Provider {
	for i := range b.providers {
		if b.providers[i].Name == name {
			return &b.providers[i]
		}
	}
	return nil
}

// Run writes and reads the streams until ctx ends. Before it returns, it writes the last entries.
func (b *Book) Run(ctx context.Context) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		_ = panics.Contain(b.log, "panic while reading the outcomes of orders", func() {
			b.write(ctx)
			b.update(ctx)
		})
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
			defer cancel()
			b.write(last)
			return nil
		case <-ticker.C:
		}
	}
}

// marketLocked returns the market of a type.
func (b *Book) marketLocked(t captcha.Type) *market {
	m := b.types[t]
	if m == nil {
		m = &market{estimates: map[string]*worth.Estimate{}, orders: map[string]*count{}}
		b.types[t] = m
	}
	return m
}
