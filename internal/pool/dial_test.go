package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/pool/redistest"
)

// Redis cuts all connections at once, of which nothing can be seen before they are used, as
// by TLS. No call fails because of it, however many there were.
func TestManyConnectionsBreakAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		s, id := open(t, Options{Addresses: "redis://bubble", Dial: bubble.Dial, Probe: time.Hour}), identity("broken")
		synctest.Wait()
		const most = 9
		for _, client := range []redis.UniversalClient{s.slow, s.hot} {
			var taken []*redis.Conn
			for range most {
				conn := client.(*redis.Client).Conn()
				if err := conn.Ping(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				taken = append(taken, conn)
			}
			for _, conn := range taken {
				if err := conn.Close(); err != nil { // it is idle from here on
					t.Fatal(err)
				}
			}
			if idle := client.PoolStats().IdleConns; idle < most {
				t.Fatalf("%d connections are idle: too few to prove something", idle)
			}
		}
		bubble.SetDown(true)
		bubble.SetDown(false)
		if _, _, err := s.Tasks.Visit(t.Context(), "12345678901", "caller"); err != nil {
			t.Errorf("a question for a task: %v", err)
		}
		if _, _, err := s.Repeat(t.Context(), id, "key", "caller"); err != nil {
			t.Errorf("a repeat: %v", err)
		}
	})
}
