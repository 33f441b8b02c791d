package redisdb

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
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

// However many dials failed, the first call after an outage dials at once. During the outage each call
// names the reason.
func TestManyDialsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		var away atomic.Bool
		var dials atomic.Int64
		db := opened(t, Options{Addresses: redistest.BubbleAddress, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			if away.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return bubble.Dial(ctx, network, address)
		}})
		for _, client := range []redis.UniversalClient{db.Slow, db.Hot} {
			away.Store(true)
			dials.Store(0)
			const calls = 200 // more than a pool has connections
			for range calls {
				err := Down(client.Ping(t.Context()).Err())
				if !errors.Is(err, ErrDown) || Reason(err) != "redis refuses the connection: nothing listens there" {
					t.Fatalf("during the outage: %v", err)
				}
			}
			if dials.Load() < calls {
				t.Errorf("%d dials for %d calls", dials.Load(), calls)
			}
			away.Store(false)
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Errorf("after the outage: %v", err)
			}
		}
	})
}

// The sentinels that both clients use hang. After the next loss of their connections to the master the
// clients ask the third sentinel.
func TestSentinelsHang(t *testing.T) {
	t.Parallel()
	nodes := redistest.SentinelNodes(t)
	var urls []string
	for _, node := range nodes[2:] {
		urls = append(urls, "redis://"+node.Addr)
	}
	db := opened(t, Options{Addresses: strings.Join(urls, ","), SentinelMaster: redistest.MasterName})
	clients := []redis.UniversalClient{db.Slow, db.Hot}
	for _, client := range clients {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	hanging := 0
	for _, node := range nodes[2:] {
		if strings.Contains(redistest.Do(t, node.Addr, "CLIENT", "LIST"), " sub=2 ") {
			hanging++
			if err := node.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	if hanging == 0 || hanging == len(urls) {
		t.Fatalf("%d sentinels are in use", hanging)
	}
	redistest.Do(t, nodes[0].Addr, "CLIENT", "KILL", "TYPE", "normal")
	began := time.Now()
	for _, client := range clients {
		testkit.Within(t, 20*time.Second, "a call", func() bool { return client.Ping(t.Context()).Err() == nil })
	}
	t.Logf("%d sentinels hang; both clients work after %v", hanging, time.Since(began))
}
