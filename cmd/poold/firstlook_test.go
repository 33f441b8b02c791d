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

	"poold/internal/history/dynamotest"
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
// these stores. The test runs alone, because it sets the environment.
func TestAStartWithSilentStores(t *testing.T) {
	dynamotest.Credentials(t)
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
				file.OverrideListen("127.0.0.1:0")
				set, err := file.Load(t.Context())
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

// If a check finds a fault within lookWait, the start fails. A later fault is logged. The checks of
// the stores run at the same time, and end with the daemon.
func TestFirstLooks(t *testing.T) {
	fault := errors.New("of another shape")
	after := func(d time.Duration, err error) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(d):
				return err
			case <-ctx.Done():
				return nil
			}
		}
	}
	for name, c := range map[string]struct {
		one, two func(context.Context) error
		took     time.Duration
		fails    string
		logged   []string // faults that are logged after an hour
	}{
		"well":         {after(time.Second, nil), after(time.Second, nil), time.Second, "", nil},
		"a fault":      {after(time.Second, nil), after(time.Second, fault), time.Second, "two: of another shape", nil},
		"late":         {after(time.Minute, nil), after(time.Minute, nil), lookWait, "", []string{"store=one", "store=two"}},
		"a late fault": {after(time.Minute, fault), after(time.Second, nil), lookWait, "", []string{"store=one", `"one: of another shape"`}},
		"silent":       {after(24*time.Hour, fault), after(0, nil), lookWait, "", []string{"store=one"}},
		"beside it":    {after(24*time.Hour, nil), after(0, fault), lookWait, "two: of another shape", []string{"store=one"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var output testkit.Log
				began := time.Now()
				one, two := lookAt(t.Context(), "one", c.one), lookAt(t.Context(), "two", c.two)
				err := await(t.Context(), slog.New(slog.NewTextHandler(&output, nil)), one, nil, two)
				if got := time.Since(began); got != c.took {
					t.Errorf("it took %v, want %v", got, c.took)
				}
				if c.fails == "" && err != nil || c.fails != "" && (err == nil || err.Error() != c.fails) {
					t.Errorf("it says %v, want %q", err, c.fails)
				}
				time.Sleep(time.Hour)
				one.end()
				two.end()
				text := output.String()
				for _, part := range c.logged {
					if !strings.Contains(text, part) {
						t.Errorf("it does not log %s:\n%s", part, text)
					}
				}
				if lines := strings.Count(text, "\n"); lines != len(c.logged) {
					t.Errorf("it logged %d lines, want %d:\n%s", lines, len(c.logged), text)
				}
			})
		})
	}
}
