package pool_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// Everything works with the rights that the docs name, and each of them is needed.
func TestTheRightsThatTheDocsName(t *testing.T) {
	t.Parallel()
	words := redistest.Rights(t)
	addr := redistest.Server(t, append([]string{"--user"}, words...)...)
	o := pool.Options{Addresses: "redis://poold:" + redistest.Password + "@" + addr}
	for name, test := range pool.RightsSuite {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
	t.Run("Claims", func(t *testing.T) { testClaims(t, opened(t, o.Addresses)) })
	if denied := redistest.Do(t, addr, "ACL", "LOG"); denied != "[]" {
		t.Errorf("Redis denied something: %s", denied)
	}
	used := redistest.Do(t, addr, "INFO", "commandstats")
	for _, word := range words {
		command, is := strings.CutPrefix(word, "+")
		if is && command != "cluster|slots" && command != "command" && !strings.Contains(used, "cmdstat_"+command+":") {
			t.Errorf("the docs grant %s, which nothing needed", word)
		}
	}
}

// opened opens the Redis that pool's neighbours use.
func opened(t *testing.T, addresses string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{Addresses: addresses, Prefix: "test-neighbours", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// testClaims is what the claims need.
func testClaims(t *testing.T, db *redisdb.DB) {
	claims, ctx := redisclaims.New(db, redisclaims.Options{}), t.Context()
	held, err := claims.Enter(ctx, dedup.ClaimEntry{Key: "k", Identity: "x"})
	if err != nil || held.State != dedup.ClaimHeld {
		t.Fatalf("entering: %+v, %v", held, err)
	}
	if mine, _, err := claims.Hold(ctx, "k", held.Fence, "x"); err != nil || !mine {
		t.Errorf("holding: %v, %v", mine, err)
	}
	if err := claims.LetGo(ctx, "k", held.Fence, "x"); err != nil {
		t.Errorf("letting go: %v", err)
	}
	if ok, err := claims.End(ctx, "k", held.Fence, dedup.ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
	if shared, err := claims.Enter(ctx, dedup.ClaimEntry{Key: "k", Callers: 2}); err != nil || string(shared.Value) != "v" {
		t.Errorf("sharing: %+v, %v", shared, err)
	}
	if err := claims.Count(ctx, map[dedup.SavingsSource]int{dedup.SavedSolve: 1}); err != nil {
		t.Errorf("counting: %v", err)
	}
	if days, err := claims.Days(ctx); err != nil || days[0].BySource[dedup.SavedAfter] != 2 {
		t.Errorf("days: %+v, %v", days, err)
	}
}
