package redisclaims

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/ondemand/claimtest"
	"poold/internal/ondemand/dedup"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// Both suites pass on every kind of server.
func TestClaims(t *testing.T) {
	tests := map[string]func(*testing.T, redistest.Place){}
	for name, test := range claimtest.Suite {
		tests[name] = func(t *testing.T, p redistest.Place) { test(t, backend(p)) }
	}
	for name, test := range suite {
		tests[name] = func(t *testing.T, p redistest.Place) { test(t, optionsAt(p)) }
	}
	redistest.OnEvery(t, tests, []string{"AClaim"})
}

// optionsAt returns the options of a DB on a server, with a random prefix.
func optionsAt(p redistest.Place) redisdb.Options {
	return redisdb.Options{Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial, Prefix: "test-" + rand.Text()}
}

// backend opens the claims of three replicas on one server.
func backend(p redistest.Place) claimtest.Open {
	return func(t *testing.T, times dedup.ClaimTimes) claimtest.Backend {
		o := optionsAt(p)
		var woken [3]sync.Map
		b := claimtest.Backend{
			Exact: p.Addresses == redistest.BubbleAddress,
			Woken: func(replica int, key captcha.ID) bool {
				_, ok := woken[replica].Load(key)
				return ok
			},
		}
		for i := range woken {
			wake := func(key captcha.ID) { woken[i].Store(key, true) }
			db := runDB(t, o, func(message string) { wake(captcha.ID(message)) })
			b.Replicas = append(b.Replicas, New(db, Options{Wake: wake, Times: times}))
			b.Left = func(t *testing.T) int { return len(keysOf(t, db, o.Prefix+":claim:*")) }
		}
		return b
	}
}

// runDB opens a DB that runs and listens until the test ends.
func runDB(t *testing.T, o redisdb.Options, hear func(string)) *redisdb.DB {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	db, err := redisdb.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = db.Run(ctx) })
	group.Go(func() { db.Listen(ctx, hear) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if err := db.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return db
}

func open(t *testing.T, o redisdb.Options) *Claims {
	t.Helper()
	return New(runDB(t, o, func(string) {}), Options{})
}

// openInBubble opens the claims of a replica without running its DB.
func openInBubble(t *testing.T, server *redistest.Bubble) *Claims {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{
		Addresses: redistest.BubbleAddress, Prefix: "test", Dial: server.Dial, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return New(db, Options{})
}

// keysOf lists the keys at all masters that match a pattern.
func keysOf(t *testing.T, db *redisdb.DB, pattern string) []string {
	t.Helper()
	var mu sync.Mutex
	var found []string
	err := db.EachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		found = append(found, keys...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func identity(name string) captcha.ID {
	return captcha.Identity{Type: captcha.Turnstile, Sitekey: name}.ID()
}
