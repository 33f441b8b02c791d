package pool

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// The slot of an identity moves to another master and back, slowly, while tokens land and are taken.
// Callers with a wait get their tokens, and no token is lost or handed out twice.
func TestASlotMoves(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	nodes := redistest.ClusterOf(t, 0)
	s := open(t, Options{Addresses: urlsOf(nodes), Prefix: "test"})
	from, to := nodes[0].Addr, nodes[1].Addr
	id := identityAt(t, s, from, "a")
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	taken, landed := map[string]int{}, 0
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			order := Ref{id, fmt.Sprint("moved", landed)}
			if err := untilItPasses(s, func() error {
				_, err := s.Place(t.Context(), Order{Ref: order, Depth: 1000, TTL: time.Minute})
				return err
			}); err != nil {
				t.Errorf("placing: %v", err)
			}
			if err := untilItPasses(s, func() error {
				_, err := s.Settle(t.Context(), Landing{Ref: order, Call: order.Order, Provider: "p", Value: order.Order, Lifetime: time.Minute})
				return err
			}); err != nil {
				t.Errorf("settling: %v", err)
			}
			landed++
			time.Sleep(20 * time.Millisecond)
		}
	})
	for range 4 {
		working.Go(func() {
			for ctx.Err() == nil {
				token, err := s.Take(ctx, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
				mu.Lock()
				if err == nil {
					taken[token.Value]++
				} else if ctx.Err() == nil {
					t.Errorf("a take: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	taking := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(taken) >= n }
	}
	testkit.Within(t, 20*time.Second, "takes", taking(20))
	for moves := range 2 {
		moveSlot(t, nodes, from, to, string(id))
		from, to = to, from
		testkit.Within(t, 20*time.Second, "takes after a move", taking(20*(moves+2)))
	}
	stop()
	working.Wait()
	testkit.Within(t, 20*time.Second, "all tokens are accounted for", func() bool {
		return len(taken)+look(t, s, id).Fresh == landed
	})
	for value, times := range taken {
		if times > 1 {
			t.Errorf("%s was handed out %d times", value, times)
		}
	}
}

// untilItPasses repeats a call while the cluster moves keys.
func untilItPasses(s *replica, call func() error) error {
	for {
		if err := call(); !s.db.Passing(err) {
			return err
		}
	}
}

// moveSlot moves the slot of a hash tag, one key in 10 ms.
func moveSlot(t *testing.T, nodes []redistest.Node, from, to, tag string) {
	t.Helper()
	slot := redistest.Do(t, from, "CLUSTER", "KEYSLOT", "{"+tag+"}")
	source, target := redistest.Do(t, from, "CLUSTER", "MYID"), redistest.Do(t, to, "CLUSTER", "MYID")
	redistest.Do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	redistest.Do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to)
	for redistest.Do(t, from, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0" {
		keys := strings.Fields(strings.Trim(redistest.Do(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "1"), "[]"))
		for _, key := range keys {
			redistest.Do(t, from, "MIGRATE", host, port, key, "0", strconv.Itoa(5000))
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, addr := range []string{to, from, nodes[2].Addr} {
		redistest.Do(t, addr, "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}
