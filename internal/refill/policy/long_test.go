package policy

import "testing"

// long is called by simulations of virtual days. The race detector makes them five
// times slower, so scripts/test runs them without it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long simulation, not with -short")
	}
	t.Parallel() // time is virtual, so that a busy machine changes nothing
}
