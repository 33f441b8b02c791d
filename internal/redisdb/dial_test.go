package redisdb

import (
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
)

// Redis closes all connections. As with TLS, the client can notice this only when it uses a
// connection. No call fails, whatever the number of connections.
func TestManyConnectionsBreakAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		db := opened(t, Options{Addresses: redistest.BubbleAddress, Dial: bubble.Dial})
		const most = 9
		for _, client := range []redis.UniversalClient{db.Slow, db.Hot} {
			var taken []*redis.Conn
			for range most {
				conn := client.(*redis.Client).Conn()
				if err := conn.Ping(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				taken = append(taken, conn)
			}
			for _, conn := range taken {
				if err := conn.Close(); err != nil { // the connection is idle from here on
					t.Fatal(err)
				}
			}
			if idle := client.PoolStats().IdleConns; idle < most {
				t.Fatalf("%d connections are idle: too few to prove something", idle)
			}
		}
		bubble.SetDown(true)
		bubble.SetDown(false)
		if _, err := db.Eval(t.Context(), probe, []string{"a key"}, 1000); err != nil {
			t.Errorf("a script: %v", err)
		}
		if err := db.Hot.Get(t.Context(), "a key").Err(); err != nil {
			t.Errorf("a command: %v", err)
		}
	})
}
