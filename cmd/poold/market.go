package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
	"poold/internal/provider/simulated"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// The simulated provider is quick, so that whoever tries poold need not wait.
const (
	simulatedMedian   = 5 * time.Second
	simulatedLeast    = 2 * time.Second
	simulatedMost     = 20 * time.Second
	simulatedFailures = 0.05
	simulatedFirst    = 2 * time.Second
	simulatedInterval = time.Second
)

// market turns the providers of a Set into clients and keeps those that a
// reload leaves as they were. Only one reload at a time uses it.
type market struct {
	observe func(provider string) func(action, outcome string)
	log     *slog.Logger
	clients map[targets.Provider]*provider.Client

	simulator *simulated.Service // nil until a Set asks for it
	simulates string             // its address
	password  captcha.Secret     // and its key, so that no web page of this machine can order there
}

// entries makes the list for the buyer. A provider that cannot be made is left
// out and logged; the others go on.
func (m *market) entries(ctx context.Context, set *targets.Set, spawn func(func() error)) []purchase.Entry {
	old := m.clients
	m.clients = map[targets.Provider]*provider.Client{}
	var entries []purchase.Entry
	for _, wanted := range set.Providers {
		terms := wanted
		// One that only moved in the file, or is used on other terms, is the same
		// one and keeps what is known of it.
		wanted.Line, wanted.Concurrency, wanted.Price = 0, 0, targets.Prices{}
		wanted.CallbackURL, wanted.FallbackAfter, wanted.CallbackDelay = "", 0, 0
		client := old[wanted]
		if client == nil {
			made, err := m.open(ctx, wanted, spawn)
			if err != nil {
				m.log.Error("a provider cannot be used", "provider", wanted.Name, "err", err)
				continue
			}
			client = made
		}
		delete(old, wanted)
		m.clients[wanted] = client
		entries = append(entries, purchase.Entry{
			Provider: client, Account: m.account(terms), Concurrency: terms.Concurrency, Price: terms.Price.For,
			Callbacks: m.callbacks(set, terms),
		})
	}
	// Orders under way at those that went finish with the clients they have.
	for _, client := range old {
		client.Close()
	}
	return entries
}

// account says which account a provider's entry is about.
func (m *market) account(p targets.Provider) string {
	if p.API == targets.APISimulated {
		return purchase.Account(string(p.API), m.simulates, m.password)
	}
	return purchase.Account(string(p.API), p.URL, p.Key)
}

// callbacks are the terms on which a provider calls back.
func (m *market) callbacks(set *targets.Set, p targets.Provider) purchase.Callbacks {
	c := purchase.Callbacks{
		URL: p.CallbackURL, Fallback: p.FallbackAfter, Delay: p.CallbackDelay, Secrets: set.Server.CallbackSecrets,
	}
	if len(c.Secrets) == 0 {
		key := p.Key
		if p.API == targets.APISimulated {
			key = m.password
		}
		c.Secrets = []captcha.Secret{purchase.DeriveSecret(key)}
	}
	return c
}

// dealing is how to deal with a provider of the file.
func dealing(p targets.Provider) provider.Config {
	config := provider.Config{
		Name: p.Name, API: string(p.API), Profile: p.Profile, URL: p.URL, Key: p.Key,
		FirstPoll: p.FirstPoll, PollInterval: p.PollInterval, Timeout: p.Timeout, Balance: p.Balance,
	}
	if p.API == targets.APISimulated {
		config.API, config.Profile = provider.APILegacy, "2captcha"
		if config.FirstPoll == 0 {
			config.FirstPoll = simulatedFirst
		}
		if config.PollInterval == 0 {
			config.PollInterval = simulatedInterval
		}
	}
	return config
}

func (m *market) open(ctx context.Context, p targets.Provider, spawn func(func() error)) (*provider.Client, error) {
	config := dealing(p)
	config.Observe, config.Log = m.observe(p.Name), m.log
	if p.API == targets.APISimulated {
		if err := m.simulate(ctx, spawn); err != nil {
			return nil, err
		}
		config.URL, config.Key = "http://"+m.simulates, m.password
		m.log.Warn("the provider is simulated: its tokens open nothing", "provider", p.Name)
	}
	return provider.New(config)
}

// simulate starts the simulated provider on a loopback port, once; it runs
// until ctx ends.
func (m *market) simulate(ctx context.Context, spawn func(func() error)) error {
	if m.simulator != nil {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the simulated provider: %w", err)
	}
	m.simulates = listener.Addr().String()
	m.password = captcha.Secret(rand.Text())
	m.simulator = simulated.New(simulated.Options{
		Key:    m.password.Reveal(),
		Median: simulatedMedian, Sigma: simulated.DefaultSigma, Min: simulatedLeast, Max: simulatedMost,
		FailShare: simulatedFailures, Flavour: simulated.TwoCaptcha, Log: m.log,
	})
	service := m.simulator
	spawn(func() error { return service.Serve(ctx, listener) })
	return nil
}

// close drops idle connections.
func (m *market) close() {
	for _, client := range m.clients {
		client.Close()
	}
}
