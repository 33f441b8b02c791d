package status

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCachedKeepsTheNewestRevision: a result of an old revision neither delays nor replaces a newer one.
func TestCachedKeepsTheNewestRevision(t *testing.T) {
	var c cached[string]
	release, done := make(chan struct{}), make(chan string)
	began := make(chan struct{})
	go func() {
		done <- c.get(revision{changes: 1}, time.Minute, func() string { close(began); <-release; return "old" })
	}()
	<-began
	if got := c.get(revision{changes: 2}, time.Minute, func() string { return "new" }); got != "new" {
		t.Errorf("revision 2: %q", got)
	}
	close(release)
	if got := <-done; got != "old" {
		t.Errorf("revision 1: %q", got)
	}
	fail := func() string { t.Error("made again"); return "" }
	if got := c.get(revision{changes: 2}, time.Minute, fail); got != "new" {
		t.Errorf("revision 2 again: %q", got)
	}
	if got := c.get(revision{changes: 3}, 0, func() string { return "brief" }); got != "brief" {
		t.Errorf("revision 3: %q", got)
	}
	if got := c.get(revision{changes: 3}, 0, func() string { return "next" }); got != "next" {
		t.Errorf("revision 3, whose life was 0: %q", got)
	}
	c.renew(revision{changes: 2}, time.Minute, func() string { return "newer" })
	if got := c.get(revision{changes: 2}, time.Minute, fail); got != "newer" {
		t.Errorf("revision 2, renewed: %q", got)
	}
}

// The life of a result begins when the result is complete, even after a long query.
func TestALifeBeginsWithTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cached[int]
		made := 0
		get := func() int {
			return c.get(revision{}, time.Second, func() int { time.Sleep(3 * time.Second); made++; return made })
		}
		get()
		time.Sleep(time.Second - 1)
		if got := get(); got != 1 {
			t.Errorf("within its life: made %d times", got)
		}
		time.Sleep(time.Nanosecond)
		if got := get(); got != 2 {
			t.Errorf("after its life: made %d times", got)
		}
	})
}
