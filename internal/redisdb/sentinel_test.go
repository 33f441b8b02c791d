package redisdb

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

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
