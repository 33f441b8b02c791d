package historytest

import (
	"testing"
	"time"

	"poold/internal/history"
)

// The model passes its own suite.
func TestMemory(t *testing.T) {
	Test(t, func(_ testing.TB, orders, handouts time.Duration) []history.Sink {
		return []history.Sink{NewMemory(orders, handouts)}
	})
}
