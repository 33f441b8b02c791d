package permits

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// Every kind of server must pass the tests of suite.
var suite = map[string]func(*testing.T, redisdb.Options){
	"Permits":  testPermits,
	"Standing": testStanding,
}

func TestOnEveryServer(t *testing.T) {
	tests := map[string]func(*testing.T, redistest.Place){}
	for name, test := range suite {
		tests[name] = func(t *testing.T, p redistest.Place) {
			test(t, redisdb.Options{Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial})
		}
	}
	redistest.OnEvery(t, tests, []string{"Permits"})
}

// open opens the permits of one replica, which watches Redis until the test ends.
func open(t *testing.T, o redisdb.Options) *Permits {
	t.Helper()
	s := openIdle(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.db.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// openIdle opens the permits of one replica. The replica does not watch Redis, so that days pass
// quickly.
func openIdle(t *testing.T, o redisdb.Options) *Permits {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	db, err := redisdb.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return New(db)
}

func inBubble(t *testing.T, test func(t *testing.T, redis *redistest.Bubble, one, two *Permits)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		o := redisdb.Options{Addresses: redistest.BubbleAddress, Prefix: "test", Dial: redis.Dial}
		test(t, redis, openIdle(t, o), openIdle(t, o))
	})
}

// order returns a reference to an order with the given name.
func order(name string) pool.Ref {
	return pool.Ref{Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: "x"}.ID(), Order: name}
}

func testPermits(t *testing.T, o redisdb.Options) {
	o.Prefix = "permits"
	s := open(t, o)
	acquire := func(name string, ttl time.Duration) bool {
		t.Helper()
		p, err := s.Acquire(t.Context(), "captchaai", order(name), 2, ttl, -1)
		if err != nil {
			t.Fatal(err)
		}
		return p.OK
	}
	for _, step := range []struct {
		name string
		ok   bool
	}{{"a", true}, {"b", true}, {"a", true}, {"c", false}} {
		if ok := acquire(step.name, time.Minute); ok != step.ok {
			t.Fatalf("%s: %v", step.name, ok)
		}
	}
	if refs, err := s.Holders(t.Context(), "captchaai"); err != nil || len(refs) != 2 || refs[0].Identity != order("a").Identity {
		t.Fatalf("holders: %v, %v", refs, err)
	}
	if err := s.Release(t.Context(), "captchaai", order("a")); err != nil {
		t.Fatal(err)
	}
	if !acquire("c", time.Hour) {
		t.Fatal("refused after a release")
	}
	// A permit ends after its life. A repeated Acquire can only shorten this life.
	if !acquire("c", 500*time.Millisecond) || !acquire("c", time.Hour) {
		t.Fatal("has no permit any more")
	}
	time.Sleep(600 * time.Millisecond)
	if !acquire("d", time.Minute) {
		t.Fatal("refused after one ran out")
	}
	counts, err := s.InFlight(t.Context(), []string{"captchaai", "none"})
	if err != nil || counts[0] != 2 || counts[1] != 0 {
		t.Fatalf("in flight: %v, %v", counts, err)
	}
}

// A longer permit prolongs the life of the list, and a shorter permit does not shorten it.
func TestPermitsLiveAsLongAsTheLongest(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, s, _ *Permits) {
		for i, lasts := range []time.Duration{time.Minute, 10 * time.Minute, 2 * time.Minute} {
			if p, err := s.Acquire(t.Context(), "p", order(strconv.Itoa(i)), 9, lasts, -1); err != nil || !p.OK || p.At != pool.RedisTime(time.Now().UnixMilli()) {
				t.Fatal(p, err)
			}
		}
		if got := redis.TTL("test:places:{p}"); got != 11*time.Minute {
			t.Errorf("%v", got)
		}
		time.Sleep(3 * time.Minute) // without a further permit
		if counts, err := s.InFlight(t.Context(), []string{"p"}); err != nil || !slices.Equal(counts, []int{1}) {
			t.Errorf("in flight %v, %v", counts, err)
		}
	})
}

// If Redis cannot return the permits of a provider, their number is unknown. The permits of the
// other providers are counted.
func TestInFlightMarksUnknownCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, s, _ *Permits) {
		if err := redis.Set("test:places:{b}", "of another type"); err != nil {
			t.Fatal(err)
		}
		if counts, err := s.InFlight(t.Context(), []string{"a", "b"}); err != nil || !slices.Equal(counts, []int{0, -1}) {
			t.Errorf("%v, %v", counts, err)
		}
		if counts, err := s.InFlight(t.Context(), []string{"b"}); !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("%v, %v", counts, err)
		}
	})
}

// A replica that acquires a permit writes the name of the provider for the other replicas once an
// hour. The name lives longer than any permit.
func TestReplicasShareProviderNames(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, buys, looks *Permits) {
		acquire := func(provider string) {
			t.Helper()
			if p, err := buys.Acquire(t.Context(), provider, order("a"), 9, 24*time.Hour, -1); err != nil || !p.OK {
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
		acquire("one")
		found("one")
		time.Sleep(nameEvery - time.Minute)
		acquire("one") // the replica wrote this name less than an hour ago, so it does not write the name again
		if got := written("one"); got != nameKept-nameEvery+time.Minute {
			t.Errorf("written down for another %v", got)
		}
		acquire("two")
		found("one", "two")
		time.Sleep(2 * time.Minute)
		acquire("one")
		if got := written("one"); got != nameKept {
			t.Errorf("written down for another %v, want it written anew", got)
		}
		time.Sleep(24*time.Hour + time.Minute) // life of the longest permit
		found("one", "two")
		time.Sleep(2*time.Hour - 2*time.Minute)
		found("one")
		acquire("three") // also removes expired names
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

// A permit is refused if the name of its provider cannot be written.
func TestAcquireFailsIfTheNameCannotBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, s, _ *Permits) {
		if err := redis.Set("test:providers", "foreign"); err != nil {
			t.Fatal(err)
		}
		order := order("a")
		if p, err := s.Acquire(t.Context(), "one", order, 9, time.Minute, -1); p.OK || !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("acquire = %v, %v", p.OK, err)
		}
		if _, err := s.Providers(t.Context()); !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("providers: %v", err)
		}
		if redis.Exists("test:places:{one}") {
			t.Error("a permit was given all the same")
		}
		redis.Del("test:providers")
		if p, err := s.Acquire(t.Context(), "one", order, 9, time.Minute, -1); !p.OK || err != nil {
			t.Errorf("acquire = %v, %v", p.OK, err)
		}
	})
}
