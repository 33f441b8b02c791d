package pool

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// idle is a store that does not look after Redis, so that days pass quickly.
func idle(t *testing.T, redis *redistest.Bubble) *replica {
	t.Helper()
	s, err := openStore(Options{Addresses: "redis://bubble", Prefix: "test", Dial: redis.Dial, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Whoever reserves a place writes the provider's name down for others to find it,
// once an hour, and it is found for longer than the place can last.
func TestProvidersAreFoundByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		buys := idle(t, redis)
		looks := idle(t, redis)
		reserve := func(provider string) {
			t.Helper()
			if p, err := buys.Acquire(t.Context(), provider, Ref{identity("x"), "order"}, 9, 24*time.Hour, -1); err != nil || !p.OK {
				t.Fatal(p.OK, err)
			}
		}
		found := func(want ...string) {
			t.Helper()
			names, err := looks.Providers(t.Context())
			if slices.Sort(names); err != nil || !slices.Equal(names, want) {
				t.Fatalf("found %q, %v; want %q", names, err, want)
			}
		}
		written := func(provider string) time.Duration {
			t.Helper()
			until, err := redis.ZScore("test:providers", provider)
			if err != nil {
				t.Fatal(err)
			}
			return time.Until(time.UnixMilli(int64(until))).Round(time.Second)
		}
		found()
		reserve("one")
		found("one")
		time.Sleep(nameEvery - time.Minute)
		reserve("one") // within the hour it costs nothing more
		if got := written("one"); got != nameKept-nameEvery+time.Minute {
			t.Errorf("written down for another %v", got)
		}
		reserve("two")
		found("one", "two")
		time.Sleep(2 * time.Minute)
		reserve("one")
		if got := written("one"); got != nameKept {
			t.Errorf("written down for another %v, want it written anew", got)
		}
		time.Sleep(24*time.Hour + time.Minute) // the longest place
		found("one", "two")
		time.Sleep(2*time.Hour - 2*time.Minute)
		found("one")
		reserve("three") // and what is over goes
		if kept, err := redis.ZMembers("test:providers"); err != nil || slices.Contains(kept, "two") {
			t.Errorf("names that are over are kept: %q, %v", kept, err)
		}
		time.Sleep(nameKept + time.Minute)
		found()
		if redis.Exists("test:providers") {
			t.Error("the key outlives its names")
		}
	})
}

// A place whose provider nobody could find is not reserved.
func TestNoPlaceWithoutItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		s := idle(t, redis)
		if err := redis.Set("test:providers", "foreign"); err != nil {
			t.Fatal(err)
		}
		order := Ref{identity("x"), "order"}
		if p, err := s.Acquire(t.Context(), "one", order, 9, time.Minute, -1); p.OK || !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("reserve = %v, %v", p.OK, err)
		}
		if _, err := s.Providers(t.Context()); !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("providers: %v", err)
		}
		if redis.Exists("test:places:{one}") {
			t.Error("a place was reserved all the same")
		}
		redis.Del("test:providers")
		if p, err := s.Acquire(t.Context(), "one", order, 9, time.Minute, -1); !p.OK || err != nil {
			t.Errorf("reserve = %v, %v", p.OK, err)
		}
	})
}
