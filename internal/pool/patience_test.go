package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
)

// Patience is the remaining wait of the last waiting caller at this replica.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		id := identity("empty")
		if got := r.Tokens.Patience(id); got != 0 {
			t.Errorf("%v without a caller", got)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = r.Tokens.Take(t.Context(), pool.Request{ID: id, Caller: "c", Wait: 10 * time.Second, MaxWaiting: 9})
		}()
		time.Sleep(4 * time.Second)
		if got := r.Tokens.Patience(id); got < 5*time.Second || got > 7*time.Second {
			t.Errorf("%v after 4 of 10 s", got)
		}
		<-done
		if got := r.Tokens.Patience(id); got != 0 {
			t.Errorf("%v after the wait", got)
		}
	})
}
