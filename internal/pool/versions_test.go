package pool

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// otherScripts makes a store with Options.Endings of this number use other scripts than its siblings.
const otherScripts = 4711

// Replicas whose scripts have different texts share a Redis, which forgets all scripts again and again.
// Each order lands once, and each token is handed out once.
func TestVersionsShareARedis(t *testing.T) {
	files := fstest.MapFS{}
	names, err := fs.Glob(sources, "lua/*.lua")
	must(t, err)
	for _, name := range names {
		text, err := sources.ReadFile(name)
		must(t, err)
		files[name] = &fstest.MapFile{Data: append(text, "\n-- another version"...)}
	}
	loadedScripts.Store(otherScripts, redisdb.LoadScripts(files, map[string]string{"LIMIT.endings": "4711", "LIMIT.endings_ms": "1000"}))
	addr, id := redistest.Server(t), identity("a")
	var replicas []*replica
	for _, endings := range []int{1000, otherScripts} {
		replicas = append(replicas, open(t, Options{Addresses: "redis://" + addr, Prefix: "test", Endings: endings}))
	}
	if replicas[0].script("take").Hash() == replicas[1].script("take").Hash() {
		t.Fatal("the replicas have the same scripts")
	}
	const each = 150
	var mu sync.Mutex
	taken := map[string]int{}
	var working sync.WaitGroup
	for i, s := range replicas {
		working.Go(func() {
			for n := range each {
				order := Order{Ref: Ref{id, fmt.Sprintf("%dx%d", i, n)}, Depth: 1 << 20, TTL: time.Minute}
				got, err := s.Place(t.Context(), order)
				if err != nil || !got.Placed {
					t.Errorf("placing: %+v, %v", got, err)
				}
				how, err := s.Settle(t.Context(), Landing{Ref: order.Ref, Call: order.Order, Provider: "p", Value: order.Order, Lifetime: time.Minute})
				if err != nil || how != Ended {
					t.Errorf("settling: %v, %v", how, err)
				}
			}
		})
		working.Go(func() {
			for range each {
				token, err := s.Take(t.Context(), Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
				if err != nil {
					t.Errorf("a take: %v", err)
				}
				mu.Lock()
				taken[token.Value]++
				mu.Unlock()
				if stocks, err := s.LookAll(t.Context(), []Query{{ID: id}}); err != nil || stocks[0].Err != nil {
					t.Errorf("a look: %v, %v", err, stocks)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	var flushes atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if replicas[0].db.Slow.ScriptFlush(ctx).Err() == nil {
				flushes.Add(1)
			}
		}
	}()
	working.Wait()
	stop()
	<-ended
	got := look(t, replicas[0], id)
	balanced(t, got)
	if f := got.Figures; len(taken) != 2*each || f.Solved != 2*each || f.Hits+f.Waited != 2*each || got.Fresh != 0 {
		t.Errorf("%d tokens were taken: %+v", len(taken), got)
	}
	t.Logf("%d times without scripts", flushes.Load())
}
