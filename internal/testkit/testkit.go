package testkit

import (
	"runtime"
	"strings"
	"testing"
)

// WithoutRace skips a test under the race detector, because the detector would make the test several times slower.
// WithoutRace is for tests that check results, such as the money spent while processes are killed. Other tests must
// run the same code under the race detector. A file with only such tests has the build tag !race instead of the calls.
// `go test ./...` runs the skipped tests.
//
// WithoutRace must be called in the test function itself, where scripts/test searches for it. Elsewhere it
// fails the test.
func WithoutRace(t testing.TB) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	caller, _, _, _ := runtime.Caller(1)
	if name := runtime.FuncForPC(caller).Name() + "."; !strings.Contains(name, "."+test+".") {
		t.Fatalf("%s calls testkit.WithoutRace outside of its own function", test)
	}
	if RaceEnabled {
		t.Skip("runs without the race detector only")
	}
}
