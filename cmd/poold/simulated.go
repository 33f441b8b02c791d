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

// simulatedProvider runs the built-in provider inside this process, on a loopback port. The port
// opens when a Set uses this provider for the first time.
type simulatedProvider struct {
	address string            // empty until a Set uses the provider for the first time
	key     captcha.Secret    // random, so that a web page in a browser of this machine cannot place orders
	opened  chan net.Listener // passes the listener from open to run
	log     *slog.Logger
}

func newSimulatedProvider(log *slog.Logger) *simulatedProvider {
	return &simulatedProvider{key: captcha.Secret(rand.Text()), opened: make(chan net.Listener, 1), log: log}
}

// open opens the port at its first call. Later calls do nothing.
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

// run waits until open has opened the port, and then serves the provider until ctx ends.
func (s *simulatedProvider) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case listener := <-s.opened:
		service := simulated.New(simulated.Options{
			// It solves quickly, so that a first trial of poold does not take long.
			Median: 5 * time.Second, Sigma: simulated.DefaultSigma, Min: 2 * time.Second, Max: 20 * time.Second,
			Key: s.key.Reveal(), FailShare: 0.05,
		})
		return simulated.Serve(ctx, listener, service, s.log)
	}
}
