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
	for _, terms := range set.Providers {
		simulated := terms.Protocol == targets.ProtocolSimulated
		if simulated {
			if err := ps.simulated.open(ctx); err != nil {
				ps.log.Error("a provider cannot be used", "provider", terms.Name, "err", err)
				continue
			}
			terms.URL, terms.Key = "http://"+ps.simulated.address, ps.simulated.key
		}
		wanted := terms
		// These fields do not affect the client. If only these fields change, the provider keeps its
		// client and the client's state.
		wanted.Concurrency, wanted.Price = 0, targets.Prices{}
		wanted.CallbackURL, wanted.FallbackAfter, wanted.CallbackDelay = "", 0, 0
		client := old[wanted]
		if client == nil {
			config := backend.ProviderConfig(wanted)
			config.Observe = ps.observe(wanted.Name)
			var err error
			if client, err = provider.New(config); err != nil {
				ps.log.Error("a provider cannot be used", "provider", wanted.Name, "err", err)
				continue
			}
		}
		delete(old, wanted)
		ps.clients[wanted] = client
		entries = append(entries, purchase.Entry{
			Provider: client, Account: purchase.Account(string(terms.Protocol), terms.URL, terms.Key), Concurrency: terms.Concurrency,
			Price: priceOf(terms.Price), Simulated: simulated, Callbacks: callbacks(set, terms),
		})
	}
	// Orders in flight still use the client of a removed provider. Close only closes idle
	// connections.
	for _, client := range old {
		client.Close()
	}
	return entries
}

func callbacks(set *targets.Set, p targets.Provider) purchase.Callbacks {
	c := purchase.Callbacks{
		URL: p.CallbackURL, Fallback: p.FallbackAfter, Delay: p.CallbackDelay, Secrets: set.Server.CallbackSecrets,
	}
	if len(c.Secrets) == 0 {
		c.Secrets = []captcha.Secret{signature.Derive(p.Key)}
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
