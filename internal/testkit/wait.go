package testkit

import (
	"testing"
	"time"
)

// Within fails the test unless is returns true within limit. It calls is often at first, and
// then ever less often.
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
