package main

import (
	"context"
	"log/slog"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/purchase/signature"
	"poold/internal/targets"
)

// providers creates the clients for the providers of a Set. A reload keeps the clients whose
// settings did not change. A value of this type is not safe for concurrent use, because reloads run
// one at a time.
type providers struct {
	observe   func(provider string) func(action, outcome string)
	log       *slog.Logger
	clients   map[targets.Provider]*provider.Client
	simulated *simulatedProvider
}

// entries returns the list of providers for the buyer. If it cannot create the client of a
// provider, it logs the error and omits this provider.
func (ps *providers) entries(ctx context.Context, set *targets.Set) []purchase.Entry {
	old := ps.clients
	ps.clients = map[targets.Provider]*provider.Client{}
	var entries []purchase.Entry
	for _, wanted := range set.Providers {
		terms := wanted
		// These fields do not affect the client. If only these fields change, the provider keeps its
		// client and the client's state.
		wanted.Concurrency, wanted.Price = 0, targets.Prices{}
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
			Simulated: terms.Protocol == targets.ProtocolSimulated, Callbacks: ps.callbacks(set, terms),
		})
	}
	// Orders in flight still use the client of a removed provider. Close only closes idle
	// connections.
	for _, client := range old {
		client.Close()
	}
	return entries
}

func (ps *providers) open(ctx context.Context, p targets.Provider) (*provider.Client, error) {
	config := backend.ProviderConfig(p)
	config.Observe = ps.observe(p.Name)
	if p.Protocol == targets.ProtocolSimulated {
		if err := ps.simulated.open(ctx); err != nil {
			return nil, err
		}
		config.URL, config.Key = "http://"+ps.simulated.address, ps.simulated.key
	}
	return provider.New(config)
}

// account returns the identifier of the account that a provider's entry in the file uses.
func (ps *providers) account(p targets.Provider) string {
	if p.Protocol == targets.ProtocolSimulated {
		return purchase.Account(string(p.Protocol), ps.simulated.address, ps.simulated.key)
	}
	return purchase.Account(string(p.Protocol), p.URL, p.Key)
}

func (ps *providers) callbacks(set *targets.Set, p targets.Provider) purchase.Callbacks {
	c := purchase.Callbacks{
		URL: p.CallbackURL, Fallback: p.FallbackAfter, Delay: p.CallbackDelay, Secrets: set.Server.CallbackSecrets,
	}
	if len(c.Secrets) == 0 {
		key := p.Key
		if p.Protocol == targets.ProtocolSimulated {
			key = ps.simulated.key
		}
		c.Secrets = []captcha.Secret{signature.Derive(key)}
	}
	return c
}

// close closes the idle connections of all clients.
func (ps *providers) close() {
	for _, client := range ps.clients {
		client.Close()
	}
}

// priceOf returns a function that returns the price of a token of a type, or -1 if the file has no
// price for this type.
func priceOf(prices targets.Prices) func(captcha.Type) float64 {
	return func(t captcha.Type) float64 {
		if !prices.Known(t) {
			return -1
		}
		return prices.For(t)
	}
}
