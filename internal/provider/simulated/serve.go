package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ListenAndServe makes a Service with the Options in a JSON text, listens on host:port, prints the
// address as a line, and serves until ctx ends.
func ListenAndServe(ctx context.Context, listen, options string, out io.Writer) error {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return fmt.Errorf("the options of the simulated provider: %w", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	return New(o).Serve(ctx, listener)
}

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
