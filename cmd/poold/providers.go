package main

import (
	"context"
	"log/slog"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// providers turns the providers of a Set into clients and keeps those that a
// reload leaves as they were. Only one reload at a time uses it.
type providers struct {
	observe   func(provider string) func(action, outcome string)
	log       *slog.Logger
	clients   map[targets.Provider]*provider.Client
	simulated *simulatedProvider
}

// entries makes the list for the buyer. A provider that cannot be made is left
// out and logged; the others go on.
func (ps *providers) entries(ctx context.Context, set *targets.Set) []purchase.Entry {
	old := ps.clients
	ps.clients = map[targets.Provider]*provider.Client{}
	var entries []purchase.Entry
	for _, wanted := range set.Providers {
		terms := wanted
		// One that only moved in the file, or is used on other terms, is the same
		// one and keeps what is known of it.
		wanted.Line, wanted.Concurrency, wanted.Price = 0, 0, targets.Prices{}
		wanted.CallbackURL, wanted.FallbackAfter, wanted.CallbackDelay = "", 0, 0
		client := old[wanted]
		if client == nil {
			made, err := ps.open(ctx, wanted)
			if err != nil {
				ps.log.Error("a provider cannot be used", "provider", wanted.Name, "err", err)
				continue
			}
			client = made
		}
		delete(old, wanted)
		ps.clients[wanted] = client
		entries = append(entries, purchase.Entry{
			Provider: client, Account: ps.account(terms), Concurrency: terms.Concurrency, Price: priceOf(terms.Price),
			Callbacks: ps.callbacks(set, terms),
		})
	}
	// Orders under way at those that went finish with the clients they have.
	for _, client := range old {
		client.Close()
	}
	return entries
}

// open makes the client of a provider.
func (ps *providers) open(ctx context.Context, p targets.Provider) (*provider.Client, error) {
	config := backend.ProviderConfig(p)
	config.Observe, config.Log = ps.observe(p.Name), ps.log
	if p.API == targets.APISimulated {
		if err := ps.simulated.open(ctx); err != nil {
			return nil, err
		}
		config.URL, config.Key = "http://"+ps.simulated.address, ps.simulated.key
	}
	return provider.New(config)
}

// account says which account a provider's entry is about.
func (ps *providers) account(p targets.Provider) string {
	if p.API == targets.APISimulated {
		return purchase.Account(string(p.API), ps.simulated.address, ps.simulated.key)
	}
	return purchase.Account(string(p.API), p.URL, p.Key)
}

// callbacks are the terms on which a provider calls back.
func (ps *providers) callbacks(set *targets.Set, p targets.Provider) purchase.Callbacks {
	c := purchase.Callbacks{
		URL: p.CallbackURL, Fallback: p.FallbackAfter, Delay: p.CallbackDelay, Secrets: set.Server.CallbackSecrets,
	}
	if len(c.Secrets) == 0 {
		key := p.Key
		if p.API == targets.APISimulated {
			key = ps.simulated.key
		}
		c.Secrets = []captcha.Secret{purchase.DeriveSecret(key)}
	}
	return c
}

// close drops idle connections.
func (ps *providers) close() {
	for _, client := range ps.clients {
		client.Close()
	}
}

// priceOf is what a token costs, below 0 if the file has no price for its type.
func priceOf(prices targets.Prices) func(captcha.Type) float64 {
	return func(t captcha.Type) float64 {
		if !prices.Known(t) {
			return -1
		}
		return prices.For(t)
	}
}
