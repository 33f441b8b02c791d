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

// Serve serves a handler on the listener until ctx ends. After that it waits one second for the
// calls in flight and returns nil. If the listener fails, it returns an error. In both cases Serve
// closes the listener.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	// The idle timeout exceeds the time for which clients keep an idle connection. If the service
	// closed a connection during a submission, the client could not know whether the service
	// accepted the task.
	server := &http.Server{
		Handler: handler, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served: // the listener failed, but connections are still open
	case <-ctx.Done():
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
