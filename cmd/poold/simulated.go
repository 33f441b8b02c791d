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

// The simulated provider is quick, so that a first trial of poold is short.
const (
	simulatedMedian   = 5 * time.Second
	simulatedLeast    = 2 * time.Second
	simulatedMost     = 20 * time.Second
	simulatedFailures = 0.05
)

// simulatedProvider is the provider in this process, on a loopback port. The first Set that uses
// it opens the port; run serves it.
type simulatedProvider struct {
	address string            // empty until a Set uses it
	key     captcha.Secret    // random, so that no web page of this machine can order there
	opened  chan net.Listener // to run
	log     *slog.Logger
}

func newSimulatedProvider(log *slog.Logger) *simulatedProvider {
	return &simulatedProvider{key: captcha.Secret(rand.Text()), opened: make(chan net.Listener, 1), log: log}
}

// open opens the port at its first call.
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

// run waits for the port to open and serves until ctx ends.
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
