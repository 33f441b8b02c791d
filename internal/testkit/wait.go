package testkit

import (
	"testing"
	"time"
)

// Within fails the test unless the condition becomes true within the given limit. The argument is
// reports whether the condition is true. Within checks the condition often at first, and then less
// and less often. The argument what names the condition in the failure.
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
