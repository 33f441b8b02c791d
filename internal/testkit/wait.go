package testkit

import (
	"testing"
	"time"
)

// Within fails the test unless the function is returns true within the duration limit. It calls the
// function often at first, and then less and less often. The argument what names the condition in
// the failure.
func Within(t testing.TB, limit time.Duration, what string, is func() bool) {
	t.Helper()
	pause, longest := 5*time.Millisecond, max(250*time.Millisecond, limit/100)
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(pause) {
		if is() {
			return
		}
		pause = min(pause*5/4, longest)
	}
	t.Fatalf("waited %v for %s in vain", limit, what)
}
