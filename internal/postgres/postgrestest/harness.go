package postgrestest

import (
	"strings"
	"testing"
	"time"
)

// Patience is a time limit for calls in tests that is long enough on a busy machine.
const Patience = 20 * time.Second

// On starts one server and runs all the tests on this server.
func On(t *testing.T, tests map[string]func(*testing.T, *Cluster)) {
	t.Helper()
	server := Start(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			// The next test needs a working server, even if this test fails during an outage.
			defer func() { server.Thaw(); server.Up(t) }()
			test(t, server)
		})
	}
}

// Hidden checks that a text contains no part of a server's address.
func Hidden(t testing.TB, what, text string) {
	t.Helper()
	for _, secret := range []string{Password, superuser, "127.0.0.1", "test_", "no-such"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s names %q: %s", what, secret, text)
		}
	}
}
