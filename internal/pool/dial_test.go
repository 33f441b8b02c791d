package pool

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool/redistest"
)

// Redis cuts all connections at once, of which nothing can be seen before they are used, as
// by TLS. No call fails because of it, however many there were.
func TestManyConnectionsBreakAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		s, id := open(t, Options{Addresses: "redis://bubble", Dial: redis.Dial, Probe: time.Hour}), identity("broken")
		calls := map[string]func(context.Context) error{
			"a question for a task": func(ctx context.Context) error {
				_, _, err := s.Tasks.Visit(ctx, "12345678901", "caller")
				return err
			},
			"a repeat": func(ctx context.Context) error {
				_, _, err := s.Repeat(ctx, id, "key", "caller")
				return err
			},
		}
		synctest.Wait()
		const most = 9
		var busy sync.WaitGroup
		for _, call := range calls {
			for range most {
				busy.Go(func() {
					if err := call(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		busy.Wait()
		if slow, hot := s.slow.PoolStats().IdleConns, s.hot.PoolStats().IdleConns; slow < most || hot < most {
			t.Fatalf("%d and %d connections are idle: too few to prove something", slow, hot)
		}
		redis.SetDown(true)
		redis.SetDown(false)
		for what, call := range calls {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
