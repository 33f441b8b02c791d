package pool_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"poold/internal/captcha"
	"poold/internal/ondemand/claimtest"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// inBubble is the address of a server in a bubble.
const inBubble = "redis://bubble"

// Every kind of server keeps claims as the suite wants it. The embedded one is that in
// the bubble.
func TestClaims(t *testing.T) {
	t.Run("bubble", func(t *testing.T) {
		testkit.WithoutRace(t)
		for name, test := range claimtest.Suite {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := redistest.InBubble(t)
					test(t, claims(pool.Options{Addresses: inBubble, Dial: server.Dial}))
				})
			})
		}
	})
	for name, options := range map[string]func(t *testing.T) pool.Options{
		"single": func(t *testing.T) pool.Options {
			return pool.Options{Addresses: "redis://" + redistest.Server(t)}
		},
		"cluster": func(t *testing.T) pool.Options {
			return pool.Options{Addresses: "redis://" + strings.Join(redistest.Cluster(t), ",redis://")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "single" {
				testkit.WithoutRace(t)
			}
			t.Parallel()
			claimtest.Test(t, claims(options(t)))
		})
	}
}

// claims opens three stores on one server, under a prefix of their own.
func claims(o pool.Options) claimtest.Open {
	return func(t *testing.T, times pool.ClaimTimes) claimtest.Backend {
		o := o
		o.Prefix, o.ClaimTimes = "test-"+rand.Text(), times
		var stores [3]*pool.Store
		var woken [3]sync.Map
		b := claimtest.Backend{
			Exact: o.Addresses == inBubble,
			Woken: func(replica int, key captcha.ID) bool {
				_, ok := woken[replica].Load(key)
				return ok
			},
			Left: func(t *testing.T) int { return len(pool.KeysOf(t, stores[0], o.Prefix+":claim:*")) },
		}
		for i := range stores {
			o.OnChange = func(key captcha.ID) { woken[i].Store(key, true) }
			stores[i] = running(t, o)
			b.Replicas = append(b.Replicas, stores[i].Claims)
		}
		return b
	}
}

// running opens a store that runs until the test ends.
func running(t *testing.T, o pool.Options) *pool.Store {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	s, err := pool.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}
