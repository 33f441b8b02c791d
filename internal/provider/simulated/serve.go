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

// Serve answers calls on l until ctx ends, then closes l, ends what is under
// way and returns nil; any other end is an error. It leaves nothing behind but
// the books: the same Service may be served again.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s,
		// Longer than a client keeps a connection that it has not used yet: the end of
		// one in the moment of its first use leaves a submit that nobody can judge.
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
		// Calls that a fault holds end with ctx.
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
	// Short calls finish; who is still reading after that is cut off.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = server.Shutdown(limit)
	_ = server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the simulated provider: %w", err)
	}
	return nil
}
