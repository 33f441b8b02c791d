package reload

import (
	"testing"
	"time"

	"poold/internal/testkit"
)

// If the file system has no events, the file is polled, and this is logged once.
func TestFileIsPolledWithoutEvents(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.every = 20 * time.Millisecond
	testkit.WithFiles(t, 0, func() {
		b.startWatch()
		testkit.Within(t, 20*time.Second, "a warning", func() bool { return b.log.Count("level=WARN", "is polled", "too many open files") == 1 })
	})
	b.write(minimal("depth: 2"))
	b.untilDepth(2)
	if n := b.log.Count("is polled"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}
