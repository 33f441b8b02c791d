package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/simulated"
)

// The simulated provider is quick, so that whoever tries poold need not wait.
const (
	simulatedMedian   = 5 * time.Second
	simulatedLeast    = 2 * time.Second
	simulatedMost     = 20 * time.Second
	simulatedFailures = 0.05
)

// simulatedProvider is the provider in this process, on a loopback port. The first
// set that wants it opens the port; run serves it.
type simulatedProvider struct {
	address string            // empty until it is wanted
	key     captcha.Secret    // drawn, so that no web page of this machine can order there
	opened  chan net.Listener // to run
	log     *slog.Logger
}

func newSimulatedProvider(log *slog.Logger) *simulatedProvider {
	return &simulatedProvider{key: captcha.Secret(rand.Text()), opened: make(chan net.Listener, 1), log: log}
}

// open opens the port, once.
func (s *simulatedProvider) open(ctx context.Context) error {
	if s.address != "" {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the simulated provider: %w", err)
	}
	s.address = listener.Addr().String()
	s.opened <- listener
	return nil
}

// run serves from when the port is open until ctx ends.
func (s *simulatedProvider) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case listener := <-s.opened:
		service := simulated.New(simulated.Options{
			Key:    s.key.Reveal(),
			Median: simulatedMedian, Sigma: simulated.DefaultSigma, Min: simulatedLeast, Max: simulatedMost,
			FailShare: simulatedFailures, Flavour: simulated.TwoCaptcha, Log: s.log,
		})
		return service.Serve(ctx, listener)
	}
}
