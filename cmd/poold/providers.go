package main

import (
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
	"poold/internal/provider/simulated"
	"poold/internal/purchase"
	"poold/internal/purchase/signature"
	"poold/internal/targets"
)

// providers creates the clients for the providers of a Set. A reload keeps the clients whose
// settings did not change. A value of this type is not safe for concurrent use, because reloads run
// one at a time.
type providers struct {
	observe   func(provider string) func(action, outcome string)
	clients   map[targets.Provider]*provider.Client
	simulated *simulated.Service // the built-in provider, which no reload replaces
}

// newProviders returns providers without clients; the method listings creates the clients. The built-in provider solves
// quickly, so that a first trial of poold does not take long.
func newProviders(observe func(provider string) func(action, outcome string)) *providers {
	return &providers{observe: observe, simulated: simulated.New(simulated.Options{
		Median: 5 * time.Second, Sigma: 0.45, FailShare: 0.05, Balance: 600, Keep: 5 * time.Minute,
	})}
}

// listings returns the list of providers for the buyer.
func (ps *providers) listings(set *targets.Set) []purchase.Listing {
	old := ps.clients
	ps.clients = map[targets.Provider]*provider.Client{}
	var listings []purchase.Listing
	for _, terms := range set.Providers {
		var transport http.RoundTripper // nil = the network
		isSimulated := terms.Protocol == targets.ProtocolSimulated
		if isSimulated {
			transport, terms.Key = ps.simulated, "any"
		}
		wanted := terms
		// These fields do not affect the client. If only these fields change, the provider keeps its
		// client and the client's state.
		wanted.Concurrency, wanted.Price = 0, targets.Prices{}
		wanted.CallbackURL, wanted.FallbackAfter, wanted.CallbackDelay = "", 0, 0
		client := old[wanted]
		if client == nil {
			client = provider.New(wanted, transport, ps.observe(wanted.Name))
		}
		delete(old, wanted)
		ps.clients[wanted] = client
		listings = append(listings, purchase.Listing{
			Provider: client, Fingerprint: purchase.Fingerprint(string(terms.Protocol), terms.URL, terms.Key),
			Concurrency: terms.Concurrency, Price: terms.Price.For, Simulated: isSimulated, Callbacks: callbacks(set, terms),
		})
	}
	// Orders in flight still use the client of a removed provider. Close only closes idle
	// connections.
	for _, client := range old {
		client.Close()
	}
	return listings
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
