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

// Serve serves calls on the listener until ctx ends. After that it waits for the calls in flight and
// returns nil. If the listener fails, it returns an error. In both cases Serve closes the listener and
// the Service.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s,
		// These timeouts exceed the time for which clients keep an idle connection. If the service
		// closed a connection during a submission, the client could not know whether the service
		// accepted the task.
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
		// The contexts of requests end with ctx, so that calls that a fault delays end too.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer s.Close()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served: // the listener failed, but connections are still open
	case <-ctx.Done():
		// Calls in flight have one second to finish. After that they are cut off.
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(limit)
		err = <-served
	}
	_ = server.Close()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the simulated provider: %w", err)
	}
	return nil
}
