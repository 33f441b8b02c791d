//go:build !race

package policy

import "testing"

// long begins a simulation of virtual days.
func long(t *testing.T) {
	t.Helper()
	t.Parallel() // time is virtual, so a busy machine changes nothing
}
