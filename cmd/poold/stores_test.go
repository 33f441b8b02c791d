package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/targets/reload"
	"poold/internal/testkit"
)

// silentServer returns the address of a server that accepts connections and never responds.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// If the stores of the file do not respond, a start takes only a little longer, and the log names
// these stores.
func TestAStartWithSilentStores(t *testing.T) {
	t.Parallel()
	silent := silentServer(t)
	postgres := fmt.Sprintf("url: 'postgres://canary:canary@%s/x'", silent)
	for name, c := range map[string]struct{ top, want string }{
		"dynamodb": {fmt.Sprintf("history: {backend: dynamodb, endpoint: 'http://%s'}\ndedup: {backend: postgres, %s}", silent, postgres), "store=history"},
		"postgres": {fmt.Sprintf("history: {backend: postgres, %s}\ndedup: {backend: postgres, %s}", postgres, postgres), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pools.yaml")
			writeFile(t, path, c.top+"\n"+serverless)
			var output testkit.Log
			var took time.Duration
			for range 3 { // a busy machine may need several attempts
				log := slog.New(slog.NewTextHandler(&output, nil))
				file := reload.NewFile(path, func(string) (string, bool) { return "", false }, log)
				file.Listen = "127.0.0.1:0"
				set, err := file.Load()
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				d, err := newDaemon(t.Context(), file, set, false, log)
				if err != nil {
					t.Fatal(err)
				}
				took = time.Since(began)
				_ = d.listener.Close()
				_ = d.disconnect()
				if took < 4*time.Second {
					break
				}
			}
			if took >= 4*time.Second {
				t.Errorf("it took %v", took)
			}
			if text := output.String(); !strings.Contains(text, c.want) || strings.Contains(text, "canary") {
				t.Errorf("it logged\n%s", text)
			}
		})
	}
}

// The checks of all stores run at the same time, for at most lookWait. The start fails for a fault that no
// wait can heal, and goes on without a store that does not answer.
func TestStoreChecks(t *testing.T) {
	fault := errors.New("of another shape")
	after := func(d time.Duration, err error) storeCheck {
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
		one, two storeCheck
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
			of := stores{checks: map[string]storeCheck{"one": c.one, "two": c.two}}
			err := of.check(t.Context(), slog.New(slog.NewTextHandler(&output, nil)))
			if took := time.Since(began); took != c.took || c.fails == "" && err != nil || c.fails != "" && (err == nil || err.Error() != c.fails) {
				t.Errorf("%s: after %v %v, want %q after %v", name, took, err, c.fails, c.took)
			}
			if text := output.String(); !strings.Contains(text, c.logged) || strings.Count(text, "\n") != min(1, len(c.logged)) {
				t.Errorf("%s: it logged %s", name, text)
			}
		})
	}
}
