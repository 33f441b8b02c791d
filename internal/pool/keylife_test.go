package pool

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// inBubble runs a test with two stores that share a prefix. The server is in the bubble, so that
// times can be compared exactly.
func inBubble(t *testing.T, test func(t *testing.T, one, two *replica, id captcha.ID)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := Options{Addresses: "redis://bubble", Dial: redistest.InBubble(t).Dial, Prefix: "bubble"}
		one, two := open(t, o), open(t, o)
		synctest.Wait() // until both stores listen
		test(t, one, two, identity("bubble"))
	})
}

func ttl(t testing.TB, s *replica, key string) time.Duration {
	t.Helper()
	got, err := s.db.Slow.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Each key lives as long as its value is needed.
func TestKeysLiveAsLongAsNeeded(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		k, month := s.keys(id), 30*24*time.Hour
		order := Ref{id, "a"}
		placeOrder(t, s, Order{Ref: order, Depth: 9, TTL: time.Minute, PerDay: 5})
		expect(t, time.Duration(0))(s.Book(t.Context(), Overall, order, Caps{PerDay: 5}, 0))
		must(t, s.Pause(t.Context(), id, Pause{}))
		must(t, s.Remember(t.Context(), id, []byte("learned")))
		must(t, s.Share(t.Context(), id, []byte("ok")))
		must(t, s.Bind(t.Context(), "key", id, time.Hour))
		must(t, s.Bind(t.Context(), "key", id, time.Minute)) // does not shorten the binding
		if _, _, err := s.Heartbeat(t.Context(), 7*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Report(t.Context(), id, "x", "", true); err == nil {
			t.Fatal("reported on nothing")
		}
		for key, want := range map[string]time.Duration{
			k.orders: month, k.journal: month, k.leases: month, k.spend: 24*time.Hour + time.Minute,
			s.budgetKey(Overall): 24*time.Hour + time.Minute, k.paused: month,
			k.learned: month, k.status: sharedFor, s.bindingKey("key"): time.Hour, s.replicasKey(): 7 * time.Second,
		} {
			if got := ttl(t, s, key); got != want {
				t.Errorf("%s lives for %v, want %v", key, got, want)
			}
		}
		must(t, s.Resume(t.Context(), id))
		time.Sleep(10 * time.Second)
		land(t, s, id, "a", 0, 100*time.Second) // born at the placing
		for key, want := range map[string]time.Duration{
			k.tokens: month, k.stats: month, k.leads: month, k.values: 100 * time.Second,
			k.sale + "a": 100*time.Second + saleKept,
		} {
			if got := ttl(t, s, key); got != want {
				t.Errorf("%s lives for %v, want %v", key, got, want)
			}
		}
		place(t, s, id, "fails")
		endOrder(t, s, Ref{id, "fails"}, Unsolved)
		request := Request{ID: id, Idempotency: "k", Rate: 5, RatePer: 7 * time.Second}
		token, err := s.Take(t.Context(), request)
		if err != nil || token.TTL != 90*time.Second {
			t.Fatal(token.TTL, err)
		}
		if _, err := s.Report(t.Context(), id, token.ID, "", true); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]time.Duration{
			s.queue(id).newWaiter(request, nil).once: 90 * time.Second, k.receipt: receiptLife, k.rate: 7 * time.Second,
			k.verdicts: month, k.attempts: attemptsLife, k.sale + "a": 100*time.Second + saleKept,
		} {
			if got := ttl(t, s, key); got != want {
				t.Errorf("%s lives for %v, want %v", key, got, want)
			}
		}
		// The mark of a returned hand-out outlives every retry of the call.
		stock(t, s, id, 1, 0, 200*time.Second)
		stock(t, s, id, 1, 0, 20*time.Second)
		for _, want := range []time.Duration{time.Minute, 200 * time.Second} {
			token := take(t, s, Request{ID: id}, 1)[0]
			giveBack(t, s, token)
			if got := ttl(t, s, k.handout+token.handout); got != want {
				t.Errorf("the mark of a hand-out lives for %v, want %v", got, want)
			}
			take(t, s, Request{ID: id}, 1)
		}
	})
}

// A landing or a return at any replica wakes a pending caller before the next poll.
func TestWaitersAreWoken(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *replica, id captcha.ID) {
		stock(t, one, id, 1, 0, time.Hour)
		held := take(t, one, Request{ID: id}, 1)[0]
		var order string
		for what, event := range map[string]func(s *replica){
			"landing": func(s *replica) { land(t, s, id, order, 0, time.Hour) },
			"callback": func(s *replica) {
				if how, err := s.Settle(t.Context(), Landing{Ref: Ref{id, order}, Value: order, Lifetime: time.Hour, Callback: true}); err != nil || how != Ended {
					t.Error(how, err)
				}
			},
			"return": func(s *replica) {
				if err := s.Return(held); err != nil {
					t.Error(err)
				}
			},
		} {
			for _, replica := range []*replica{one, two} {
				if what == "return" && replica == two {
					continue // only the replica that handed out a token can return it
				}
				if what != "return" {
					order = "o" + strconv.FormatInt(stocked.Add(1), 10)
					place(t, replica, id, order)
				}
				waiter := parkOne(t, two, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
				time.Sleep(100 * time.Millisecond) // to a time between two polls
				began := time.Now()
				event(replica)
				if got := <-waiter; got.err != nil || time.Since(began) > 100*time.Millisecond {
					t.Errorf("after a %s: woken after %v: %v", what, time.Since(began), got.err)
				}
			}
		}
	})
}

// A take that reaches Redis after a newer take of the same replica gets no token. A retried take
// gets the same answer.
func TestLateTakesHandOutNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		stock(t, s, id, 5, 0, time.Minute)
		q := s.queue(id)
		call := func(number int64) []string {
			keys, args := q.encode(&takeCall{immediate: []*waiter{q.newWaiter(Request{ID: id}, nil)}}, number)
			reply, err := s.takeOnce(time.Second, keys, args)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		first := call(100)
		if again := call(100); len(first) != 3 || !slices.Equal(first, again) {
			t.Errorf("sent again: %v, %v", first, again)
		}
		for _, number := range []int64{99, 1, 0} {
			if late := call(number); !slices.Equal(late, []string{"stale"}) {
				t.Errorf("number %d: %v", number, late)
			}
		}
		if got := look(t, s, id); got.Fresh != 4 || got.Figures.Hits != 1 {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

// If a caller hangs up at any time, with or without a wait, no token is lost. The token counts as
// returned. A token with an Idempotency-Key stays with the key.
func TestHangUpsInEveryMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		stock(t, s, id, 1, 0, time.Hour)
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		q := s.queue(id)
		for i, hang := range []func(r Request){
			func(r Request) { _, _ = s.Take(gone, r) }, // hangs up before the answer
			func(r Request) { // hangs up after the answer
				r.Wait = time.Minute
				mine := make(listener, 1)
				a, err := q.join(q.newWaiter(r, mine))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				_ = q.abandon(a, mine, outcomeNone)
			},
			func(r Request) { // hangs up during the call
				mine := make(listener, 1)
				a := q.newWaiter(r, mine)
				keys, args := q.encode(&takeCall{waiters: []*waiter{a}}, s.calls.Add(1))
				reply, err := s.takeOnce(time.Second, keys, args)
				if err != nil {
					t.Fatal(err)
				}
				a.done = true
				q.deliver(&takeCall{waiters: []*waiter{a}}, reply)
			},
		} {
			hang(Request{ID: id, MaxWaiting: 5})
			synctest.Wait()
			if got := look(t, s, id); got.Fresh != 1 || got.Figures.Returned != int64(i+1) || got.Figures.Hits != int64(i+1) {
				t.Errorf("%d: %+v", i, got)
			}
		}
		request := Request{ID: id, Idempotency: "k"}
		_, _ = s.Take(gone, request)
		if got := look(t, s, id); got.Fresh != 0 || got.Figures.Returned != 3 {
			t.Errorf("with a key: %+v", got)
		}
		if token, err := s.Take(t.Context(), request); err != nil || token.Source != FromReplay {
			t.Errorf("its retry: %+v, %v", token, err)
		}
	})
}
