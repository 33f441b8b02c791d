package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// A master is killed while tokens land and are taken. The master's replica takes over within
// seconds. No token is handed out twice, unless the failover loses the record of its take.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		// The nodes have a Redis user with exactly the rights that the docs list.
		nodes := redistest.ClusterOf(t, 1, append([]string{"--user"}, redistest.Rights(t)...)...)
		var addrs []string
		for _, node := range nodes {
			addrs = append(addrs, "redis://poold:"+redistest.Password+"@"+node.Addr)
		}
		failover(t, Options{Addresses: strings.Join(addrs, ",")}, func(s *replica) (*os.Process, []captcha.ID) {
			var all []captcha.ID
			for _, node := range nodes[:3] {
				all = append(all, identityAt(t, s, node.Addr, "a"))
			}
			return nodes[0].Process, all
		})
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.SentinelNodes(t)
		failover(t, Options{Addresses: urlsOf(nodes[2:]), SentinelMaster: redistest.MasterName},
			func(*replica) (*os.Process, []captcha.ID) {
				return nodes[0].Process, []captcha.ID{identity("a"), identity("b")}
			})
	})
}

// failover kills the process that the function prepare returns, while two replicas buy and take.
// failover continues until tokens of every identity have landed and been taken after the kill.
func failover(t *testing.T, o Options, prepare func(*replica) (*os.Process, []captcha.ID)) {
	o.Prefix = "test-failover"
	s, buyer := open(t, o), open(t, o)
	testkit.Within(t, 20*time.Second, "healthy", func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
	doomed, ids := prepare(s)
	// In a cluster the callers keep waiting, and get no error.
	wait := time.Second
	if s.db.Mode == redisdb.ModeCluster {
		wait = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	taken := map[string]int{} // token -> number of its takes
	killed := make(chan struct{})
	after := make([]chan struct{}, len(ids)) // closed when a token bought after the kill is taken
	var working sync.WaitGroup
	for i, id := range ids {
		after[i] = make(chan struct{})
		working.Go(func() {
			var late bool // set for orders that are placed after the kill
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-killed:
					late = true
				default:
				}
				order := fmt.Sprintf("early%dx%d", i, n)
				if late {
					order = fmt.Sprintf("late%dx%d", i, n)
				}
				got, err := buyer.Place(ctx, Order{Ref: Ref{id, order}, Depth: 100, TTL: time.Minute})
				if err == nil && got.Placed {
					_, _ = buyer.Settle(ctx, Landing{Ref: Ref{id, order}, Provider: "p", Value: order, Lifetime: time.Minute})
				}
				time.Sleep(5 * time.Millisecond) // 200 orders a second suffice
			}
		})
		working.Go(func() {
			done := false
			for ctx.Err() == nil {
				token, err := s.Take(ctx, Request{ID: id, Wait: wait, MaxWaiting: 9})
				if err != nil {
					if down := errors.Is(err, redisdb.ErrDown) && s.db.Mode != redisdb.ModeCluster; !isEmpty(err) && !down && ctx.Err() == nil {
						t.Errorf("a take: %v", err)
					}
					time.Sleep(5 * time.Millisecond)
					continue
				}
				mu.Lock()
				taken[token.Value]++
				mu.Unlock()
				if !done && strings.HasPrefix(token.Value, "late") {
					done = true
					close(after[i])
				}
			}
		})
	}
	testkit.Within(t, 20*time.Second, "tokens flow", func() bool { mu.Lock(); defer mu.Unlock(); return len(taken) > 10*len(ids) })
	began := time.Now()
	must(t, doomed.Kill())
	close(killed)
	for i := range ids {
		select {
		case <-after[i]:
			t.Logf("identity %d is served again after %v", i, time.Since(began).Round(10*time.Millisecond))
		case <-time.After(20 * time.Second):
			t.Errorf("identity %d: nothing that was bought after the failover was taken within 20 s", i)
		}
	}
	testkit.Within(t, 20*time.Second, "healthy again", func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
	cancel()
	working.Wait()
	// The new master may lack the last writes of the old master. If a take is among the lost writes,
	// its token is in the list again.
	twice := 0
	for _, times := range taken {
		if times > 2 {
			t.Errorf("a token was handed out %d times", times)
		}
		if times > 1 {
			twice++
		}
	}
	t.Logf("%d tokens taken, %d of them again, because Redis had lost the take", len(taken), twice)
	if twice > 3*len(ids) {
		t.Errorf("%d tokens were handed out twice", twice)
	}
}
func urlsOf(nodes []redistest.Node) string {
	var urls []string
	for _, node := range nodes {
		urls = append(urls, "redis://"+node.Addr)
	}
	return strings.Join(urls, ",")
}
