package status

import (
	"testing"
	"time"
)

// TestCached is the story of the cache: an answer for an old key is not waited
// for, and does not replace a newer one.
func TestCached(t *testing.T) {
	var c cached[string]
	release, done := make(chan struct{}), make(chan string)
	began := make(chan struct{})
	go func() {
		done <- c.get("1", time.Minute, func() string { close(began); <-release; return "old" })
	}()
	<-began
	if got := c.get("2", time.Minute, func() string { return "new" }); got != "new" {
		t.Errorf("key 2: %q", got)
	}
	close(release)
	if got := <-done; got != "old" {
		t.Errorf("key 1: %q", got)
	}
	fail := func() string { t.Error("made again"); return "" }
	if got := c.get("2", time.Minute, fail); got != "new" {
		t.Errorf("key 2 again: %q", got)
	}
	if got := c.get("3", 0, func() string { return "brief" }); got != "brief" {
		t.Errorf("key 3: %q", got)
	}
	if got := c.get("3", 0, func() string { return "next" }); got != "next" {
		t.Errorf("key 3, whose life was 0: %q", got)
	}
}
