package testkit

import "testing"

// WithoutRace skips a test under the race detector, which would make it several times slower.
// It is for tests of results, such as money counted while processes die, if other tests run
// the same code under the race detector. `go test ./...` runs them.
func WithoutRace(t testing.TB) {
	t.Helper()
	if RaceEnabled {
		t.Skip("runs without the race detector only")
	}
}
