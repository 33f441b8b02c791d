package testkit

import "testing"

// WithoutRace skips a test under the race detector, because the detector would make the test
// several times slower. WithoutRace is for tests that check results, such as the money spent while
// processes are killed. Other tests must run the same code under the race detector. `go test ./...`
// runs the skipped tests.
func WithoutRace(t testing.TB) {
	t.Helper()
	if RaceEnabled {
		t.Skip("runs without the race detector only")
	}
}
