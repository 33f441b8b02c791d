package postgrestest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is the limit of a call on a busy machine.
const Patience = 20 * time.Second

// On starts one server and runs each test on it.
func On(t *testing.T, tests map[string]func(*testing.T, *Server)) {
	t.Helper()
	server := Start(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			// A test that fails during an outage leaves a working server to the next test.
			defer func() {
				server.Thaw()
				server.Up(t)
			}()
			test(t, server)
		})
	}
}

// Outage is a time in which a server does not answer.
type Outage struct{ Begin, End func() }

// Outages returns the kinds of outages by name.
func (s *Server) Outages(t *testing.T) map[string]Outage {
	up := func() { s.Up(t) }
	return map[string]Outage{
		"ended":  {func() { s.Stop(t) }, up},
		"killed": {func() { s.Kill(t) }, up},
		"silent": {s.Freeze, s.Thaw},
	}
}

// Run calls run until stop is called or the test ends.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
	})
	stop = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// Hidden checks that a text names no part of a server's address.
func Hidden(t testing.TB, what, text string) {
	t.Helper()
	for _, secret := range []string{Password, superuser, "127.0.0.1", "test_", "no-such"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s names %q: %s", what, secret, text)
		}
	}
}
