package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/backend"
	"poold/internal/history"
	"poold/internal/testkit"
)

// silentServer returns the address of a server that accepts connections and never responds.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return l.Addr().String()
}

// The checks of all stores run at the same time, for at most lookWait. The start fails for a fault that no
// wait can heal, and goes on without a store that does not answer.
func TestStoreChecks(t *testing.T) {
	fault := errors.New("of another shape")
	after := func(d time.Duration, err error) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(d):
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for name, c := range map[string]struct {
		one, two func(context.Context) error
		took     time.Duration
		fails    string
		logged   string
	}{
		"well":      {after(time.Second, nil), after(time.Second, nil), time.Second, "", ""},
		"a fault":   {after(time.Second, nil), after(time.Second, fault), time.Second, "two: of another shape", ""},
		"away":      {after(0, history.ErrDown), after(0, nil), 0, "", "store=one"},
		"silent":    {after(24*time.Hour, fault), after(0, nil), lookWait, "", "store=one"},
		"beside it": {after(24*time.Hour, nil), after(0, fault), lookWait, "two: of another shape", "store=one"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var output testkit.Log
			began := time.Now()
			of := stores{opened: []backend.Store{{Key: "one", Start: c.one}, {Key: "two", Start: c.two}}}
			err := of.check(t.Context(), slog.New(slog.NewTextHandler(&output, nil)))
			if took := time.Since(began); took != c.took || c.fails == "" && err != nil || c.fails != "" &&
				(err == nil || err.Error() != c.fails) {
				t.Errorf("%s: after %v %v, want %q after %v", name, took, err, c.fails, c.took)
			}
			if text := output.String(); !strings.Contains(text, c.logged) || strings.Count(text, "\n") != min(1, len(c.logged)) {
				t.Errorf("%s: it logged %s", name, text)
			}
		})
	}
}
