package simulated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve answers calls on l until ctx ends, then closes l, ends the calls in flight and returns
// nil; any other end is an error. It closes the Service.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s,
		// Longer than a client keeps an unused connection: closing one during a submit
		// would leave the client unsure whether the submit was accepted.
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
		// Calls that a fault delays end with ctx.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer s.Close()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		_ = server.Close() // the listener broke; connections are still open
		return fmt.Errorf("serving the simulated provider: %w", err)
	case <-ctx.Done():
	}
	// Short calls finish; longer ones are cut off.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = server.Shutdown(limit)
	_ = server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the simulated provider: %w", err)
	}
	return nil
}
