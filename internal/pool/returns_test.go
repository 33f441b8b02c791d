package pool

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func take(t testing.TB, s *replica, r Request, n int) (tokens []Token) {
	t.Helper()
	for range n {
		token, err := s.Take(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// balanced checks the equation of Figures for the given stock.
func balanced(t testing.TB, got Stock) {
	t.Helper()
	f := got.Figures
	if sum := f.Hits + f.Waited - f.Returned + f.Expired + f.Failed + f.Lost + f.Discarded +
		int64(got.Fresh+got.Bought); sum != f.Bought {
		t.Errorf("bought %d, accounted for %d: %+v", f.Bought, sum, got)
	}
}

// While Redis is unavailable, Return does not block. After the outage, the returned tokens are in the
// stock again, except those that died meanwhile.
func TestReturnsAreRetriedUntilRedisAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		s, id := open(t, Options{Addresses: "redis://bubble", Dial: redis.Dial}), identity("later")
		stock(t, s, id, 20, 0, time.Minute)
		stock(t, s, id, 2, 54*time.Second, time.Minute)
		tokens := take(t, s, Request{ID: id}, 12)
		redis.SetDown(true)
		began := time.Now()
		for _, token := range tokens {
			if err := s.Return(token); err != nil {
				t.Error(err)
			}
		}
		if held := time.Since(began); held > 0 {
			t.Errorf("the handlers were held for %v", held)
		}
		time.Sleep(8 * time.Second) // until two tokens are dead
		redis.SetDown(false)
		time.Sleep(3 * time.Second)
		got := look(t, s, id)
		if got.Fresh != 20 || got.Figures.Returned != 10 {
			t.Errorf("afterwards: %+v", got)
		}
		balanced(t, got)
		if s.returning() != 0 {
			t.Error("returned tokens are kept")
		}
	})
}

// A take is in flight while the store closes, and its caller hangs up. The token is put back before
// the connections close.
func TestCloseReturnsTokensOfCallersThatHungUp(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *replica, id captcha.ID) {
		stock(t, one, id, 1, 0, time.Minute)
		token := take(t, one, Request{ID: id}, 1)[0]
		closing := make(chan struct{})
		one.spawn(func() { // as if the reply to the take came during the close
			<-one.closing
			time.Sleep(time.Second)
			one.returnToken(token)
			close(closing)
		})
		one.close()
		<-closing
		if got := look(t, two, id); got.Fresh != 1 || got.Figures.Returned != 1 {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

// Without free memory, Redis still executes the scripts that hand out tokens and put them back,
// because these scripts begin with a write that needs no memory.
func TestOutOfMemory(t *testing.T) {
	address := redistest.Server(t, "--maxmemory-policy", "noeviction")
	s, id := open(t, Options{Addresses: "redis://" + address}), identity("memory")
	stock(t, s, id, 40, 0, time.Minute)
	paid := Ref{id, "paid"}
	place(t, s, id, "paid")
	expect(t, true)(s.MarkSubmitting(t.Context(), paid))
	take(t, s, Request{ID: id}, 1)
	must(t, s.db.Slow.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 20 {
		token := take(t, s, Request{ID: id}, 1)[0]
		giveBack(t, s, token)
		balanced(t, look(t, s, id))
	}
	if got := look(t, s, id); got.Fresh != 39 || got.Figures.Returned != 20 {
		t.Errorf("20 callers hung up: %+v", got)
	}
	request := Request{ID: id, Idempotency: "k"}
	first, err := s.Take(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Take(t.Context(), request); err != nil || again.Value != first.Value || again.Source != FromReplay {
		t.Errorf("with a key: %+v, %v", again, err)
	}
	must(t, s.Bind(t.Context(), "key of /solve", id, time.Minute))
	take(t, open(t, Options{Addresses: "redis://" + address}), Request{ID: id}, 1) // a replica that starts now
	// Orders in flight continue, but no new order is placed.
	if got, err := s.Place(t.Context(), Order{Ref: Ref{id, "new"}, Depth: 100, TTL: time.Minute}); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("a new order: %+v, %v", got, err)
	}
	if ok, err := s.Submitted(t.Context(), paid, "4711"); err != nil || !ok {
		t.Errorf("a task that was paid for: %v, %v", ok, err)
	}
	if lost, err := s.Renew(t.Context(), []Ref{paid}); err != nil || len(lost) != 0 {
		t.Errorf("its lease: %v, %v", lost, err)
	}
	land(t, s, id, "paid", 0, time.Minute)
	must(t, s.db.Slow.ConfigSet(t.Context(), "maxmemory", "0").Err())
	place(t, s, id, "later")
	if got := look(t, s, id); got.Fresh != 38 || got.Orders != 1 {
		t.Errorf("with memory again: %+v", got)
	}
	balanced(t, look(t, s, id))
}

// The reply to a take is lost, and the retry is refused before the script runs. The take is retried
// until its outcome is known.
func TestTakeGoesOnAfterALostReply(t *testing.T) {
	s, err := openStore(Options{Addresses: "redis://127.0.0.1:1", Prefix: "x", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	hash := s.script("take").Hash()
	for _, c := range []struct {
		err  error
		lost bool
		over bool
	}{
		{errors.New("read: connection reset"), false, false},
		{refusal("LOADING Redis is loading the dataset in memory"), false, true},
		{refusal("LOADING Redis is loading the dataset in memory"), true, false},
		{refusal("READONLY You can't write against a read only replica. script: " + hash + ", on @user_script:1."), true, true},
	} {
		if over := isOver(c.err, s.script("take"), c.lost); over != c.over {
			t.Errorf("%v, lost %v: over %v", c.err, c.lost, over)
		}
	}
}

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Redis loses connections of takes under load and refuses some takes. Afterwards each token is with a
// caller or in the stock.
func TestRefusalsLoseNoToken(t *testing.T) {
	address := redistest.Server(t)
	o := Options{Addresses: "redis://" + address, Prefix: "refusals"}
	s, id := open(t, o), identity("refusals")
	thief := thiefOfTakes(s)
	o.Dial = thief.Dial
	robbed := open(t, o)
	stock(t, s, id, 200, 0, time.Minute)
	var mu sync.Mutex
	taken := map[string]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				token, err := robbed.Take(t.Context(), Request{ID: id})
				if err != nil {
					continue
				}
				mu.Lock()
				if taken[token.Value] {
					t.Errorf("%s was handed out twice", token.ID)
				}
				taken[token.Value] = true
				mu.Unlock()
			}
		})
	}
	for i := range 20 {
		must(t, s.db.Slow.ConfigSet(t.Context(), "min-replicas-to-write", []string{"1", "0"}[i%2]).Err())
		time.Sleep(10 * time.Millisecond)
	}
	all.Wait()
	testkit.Within(t, 20*time.Second, "every token to be somewhere", func() bool { return look(t, s, id).Fresh+len(taken) == 200 })
	balanced(t, look(t, s, id))
}
