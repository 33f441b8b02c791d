package pool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// A foreign value anywhere in the list is set aside and counted, and every token is handed out once.
func testJunkIsSetAside(t *testing.T, o Options) {
	s, id := open(t, o), identity("junk")
	k := s.keys(id)
	ctx := t.Context()
	want := map[string]bool{}
	push := func(n int, age time.Duration) {
		for _, value := range stock(t, s, id, n, age, time.Minute) {
			want[value] = true
		}
	}
	junk := []string{"junk", "", "1795306466343|no fields", "9999999999999"}
	push(2, 40*time.Second)
	s.db.Slow.RPush(ctx, k.tokens, junk[0], junk[1])
	push(2, 20*time.Second) // lands behind the foreign value
	s.db.Slow.RPush(ctx, k.tokens, junk[0])
	push(3, 30*time.Second) // lands between
	push(2, 0)
	s.db.Slow.LPush(ctx, k.tokens, junk[2])
	s.db.Slow.RPush(ctx, k.tokens, junk[3])
	if got, err := s.Look(ctx, id, 0, 35*time.Second); err != nil || got.Outliving < 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range 9 {
		request := []Request{
			{}, {MinTTL: 25 * time.Second}, {Idempotency: "k" + string(rune('a'+i))}, {Wait: time.Second, MaxWaiting: 5},
		}[i%4]
		request.ID = id
		token, err := s.Take(ctx, request)
		if err != nil {
			t.Fatalf("take %d, %+v: %v", i, request, err)
		}
		if !want[token.Value] {
			t.Errorf("took %q", token.Value)
		}
		delete(want, token.Value)
	}
	if _, err := s.Take(ctx, Request{ID: id}); !isEmpty(err) {
		t.Errorf("the tenth: %v", err)
	}
	got := look(t, s, id)
	kept, err := s.db.Slow.LLen(ctx, k.junk).Result()
	if err != nil || kept != 5 || got.Figures.Junk != 5 || got.Fresh != 0 {
		t.Errorf("%d kept, %v: %+v", kept, err, got)
	}
	balanced(t, got)
}

// Foreign values among the tokens do not prevent immediate callers from getting tokens.
func testJunkCostsNoImmediateCallerAToken(t *testing.T, o Options) {
	s, id := open(t, o), identity("much junk")
	stock(t, s, id, 2, 40*time.Second, time.Minute)
	s.db.Slow.RPush(t.Context(), s.keys(id).tokens, "a", "b", "c")
	stock(t, s, id, 10, 0, time.Minute)
	results := make(chan error, 6)
	q := s.queue(id)
	q.mu.Lock() // so that the takes share one or two calls
	for range 6 {
		go func() {
			_, err := s.Take(t.Context(), Request{ID: id})
			results <- err
		}()
	}
	q.mu.Unlock()
	for range 6 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	got := look(t, s, id)
	if got.Figures.Hits != 6 || got.Figures.Junk != 3 || got.Fresh != 6 {
		t.Errorf("%+v", got)
	}
	balanced(t, got)
}

// Redis stores a limited number of foreign values.
func testKeptJunkIsLimited(t *testing.T, o Options) {
	s, id := open(t, o), identity("bounded junk")
	for range 50 {
		s.db.Slow.RPush(t.Context(), s.keys(id).tokens, "junk")
	}
	if got := look(t, s, id); got.Fresh != 0 || got.Figures.Junk != 50 {
		t.Errorf("%+v", got)
	}
	if kept := s.db.Slow.LLen(t.Context(), s.keys(id).junk).Val(); kept != 20 {
		t.Errorf("%d are kept", kept)
	}
}

// An order with an unreadable line in the journal cannot be settled. The line is set aside at the
// order's deadline. A line without an order is set aside immediately.
func testUnreadableJournalLinesAreSetAside(t *testing.T, o Options) {
	s, id := open(t, o), identity("junk line")
	ctx, k := t.Context(), s.keys(id)
	placeOrder(t, s, Order{Ref: Ref{id, "a"}, Depth: 5, TTL: 300 * time.Millisecond})
	s.db.Slow.HSet(ctx, k.journal, "a", "what is this", "foreign", "1|x")
	if how, err := s.Settle(ctx, Landing{Ref: Ref{id, "a"}, Value: "v", Lifetime: time.Minute}); err != nil || how != Gone {
		t.Errorf("settled an order that cannot be read: %v, %v", how, err)
	}
	testkit.Within(t, 20*time.Second, "both to be set aside", func() bool { return look(t, s, id).Figures.Junk == 2 })
	if n := s.db.Slow.HLen(ctx, k.journal).Val(); n != 0 {
		t.Errorf("%d lines are left", n)
	}
	balanced(t, look(t, s, id))
}

// A key holds a value of another type. Calls that need the key fail with an error that contains the
// key, lose no token and change nothing. After the value is deleted, all calls work again. Other
// identities work all the time.
func testForeignTypesFailWithoutAChange(t *testing.T, o Options) {
	s, id, other := open(t, o), identity("foreign"), identity("not foreign")
	ctx, k := t.Context(), s.keys(id)
	stock(t, s, id, 20, 0, time.Minute)
	stock(t, s, other, 40, 0, time.Minute)
	const key = "k"
	once := s.queue(id).newWaiter(Request{ID: id, Idempotency: key}, nil).once
	foreign := []string{
		k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.leads, k.rate, k.leases, k.spend, k.verdicts,
		k.values, k.failures, once,
	}
	for i, name := range foreign {
		order := Ref{id, "o" + string(rune('a'+i))}
		place(t, s, id, order.Order)
		expect(t, true)(s.MarkSubmitting(ctx, order))
		held := take(t, s, Request{ID: id}, 1)[0]
		before := look(t, s, id)
		// The next script may end this order, because its deadline has passed. A live caller makes the
		// scripts read the tickets.
		late := order.Order + "late"
		placeOrder(t, s, Order{Ref: Ref{id, late}, Depth: 1 << 20})
		must(t, s.db.Slow.ZAdd(ctx, k.seen, redis.Z{Score: float64(time.Now().UnixMilli()), Member: "live"}).Err())
		if s.db.Slow.Exists(ctx, name).Val() == 1 {
			must(t, s.db.Slow.Rename(ctx, name, k.handout+"aside").Err())
		}
		if name == once {
			s.db.Slow.RPush(ctx, name, "foreign")
		} else {
			s.db.Slow.Set(ctx, name, "foreign", 0)
		}
		s.queue(id).look = nil // the shared look of the last round is stale
		failed, got, ended := 0, 0, false
		gone := func() bool { // false while the foreign value hides the order
			return errors.Is(s.db.Slow.HGet(ctx, k.journal, late).Err(), redis.Nil) ||
				errors.Is(s.db.Slow.ZScore(ctx, k.orders, late).Err(), redis.Nil)
		}
		check := func(what string, err error) {
			switch {
			case err == nil || isEmpty(err):
				ended = gone()
			case errors.Is(err, redisdb.ErrDown) && strings.Contains(err.Error(), name) && strings.Contains(err.Error(), "delete"):
				failed++
				if gone() != ended {
					t.Errorf("%s with a foreign %s failed, and ended an order", what, name)
				}
			default:
				t.Errorf("%s with a foreign %s: %v", what, name, err)
			}
		}
		for _, request := range []Request{
			{}, {Idempotency: key}, {MinTTL: time.Hour, Wait: time.Millisecond, MaxWaiting: 5}, {Rate: 100, RatePer: time.Second},
		} {
			request.ID = id
			token, err := s.Take(ctx, request)
			if err == nil && token.Source != FromReplay {
				got++
			}
			check("taking", err)
		}
		_, err := s.Place(ctx, Order{Ref: Ref{id, order.Order + "x"}, Depth: 100, TTL: time.Minute, PerDay: 100})
		check("placing", err)
		_, err = s.MarkSubmitting(ctx, order)
		check("marking", err)
		_, err = s.Submitted(ctx, order, "1")
		check("noting a task", err)
		_, err = s.Fail(ctx, Failure{Ref: Ref{id, order.Order + "x"}})
		check("failing", err)
		how, err := s.Settle(ctx, Landing{Ref: order, Value: order.Order, Lifetime: time.Minute})
		check("settling", err)
		landed := how == Ended
		_, err = s.Look(ctx, id, 0, 0)
		check("looking", err)
		_, _, err = s.Adopt(ctx, id, []string{order.Order})
		check("adopting", err)
		if err := s.Return(held); err != nil {
			t.Errorf("returning: %v", err)
		}
		if failed == 0 {
			t.Errorf("nothing failed over %s", name)
		}
		take(t, s, Request{ID: other}, 1)

		// The value is replaced in one step, so that a token returned meanwhile is not overwritten.
		if s.db.Slow.Exists(ctx, k.handout+"aside").Val() == 1 {
			must(t, s.db.Slow.Rename(ctx, k.handout+"aside", name).Err())
		} else if err := s.db.Slow.Del(ctx, name).Err(); err != nil {
			t.Fatal(err)
		}
		// After the repair, the token that could not be put back returns to the stock.
		testkit.Within(t, 20*time.Second, "the token is back", func() bool {
			return look(t, s, id).Figures.Returned == before.Figures.Returned+1
		})
		after := look(t, s, id)
		balanced(t, after)
		want := before.Fresh - got + 1
		if landed {
			want++
		}
		if after.Fresh != want {
			t.Errorf("with a foreign %s: %d tokens, want %d", name, after.Fresh, want)
		}
		if !landed {
			if how, err := s.Settle(ctx, Landing{Ref: order, Value: order.Order, Lifetime: time.Minute}); err != nil || how != Ended {
				t.Errorf("landing after a foreign %s: %v, %v", name, how, err)
			}
		}
	}
}

// Tokens before and behind a foreign value are still handed out in the order in which they die.
func TestTokensAreSortedBesideJunk(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		stock(t, s, id, 1, 0, time.Minute)
		must(t, s.db.Slow.RPush(t.Context(), s.keys(id).tokens, "junk").Err())
		stock(t, s, id, 1, 40*time.Second, time.Minute)
		for _, want := range []time.Duration{20 * time.Second, time.Minute} {
			if got := take(t, s, Request{ID: id}, 1)[0].TTL; got != want {
				t.Errorf("a token that lives for %v, want %v", got, want)
			}
		}
	})
}
