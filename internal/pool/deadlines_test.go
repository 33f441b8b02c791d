package pool

import (
	"testing"
	"time"

	"poold/internal/captcha"
)

// A token is still fresh in the millisecond in which its margin begins. The count of outliving
// tokens is stricter: it no longer includes a token whose margin and lead time begin in this
// millisecond.
func TestTokensLiveToTheMillisecond(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		const margin, lead = 40 * time.Second, 15 * time.Second
		stock(t, s, id, 1, 0, 100*time.Second) // outlives the margin and the lead time for 45 s, the margin for 60 s
		at := func(want Stock) {
			t.Helper()
			got, err := s.Look(t.Context(), id, margin, lead)
			if err != nil || got.Fresh != want.Fresh || got.Outliving != want.Outliving ||
				got.NextExpiry != want.NextExpiry || got.NextLook != want.NextLook {
				t.Errorf("%d fresh, %d outliving, %v, %v; want %d, %d, %v, %v: %v", got.Fresh, got.Outliving, got.NextExpiry, got.NextLook,
					want.Fresh, want.Outliving, want.NextExpiry, want.NextLook, err)
			}
		}
		at(Stock{Fresh: 1, Outliving: 1, NextExpiry: 60 * time.Second, NextLook: 45 * time.Second})
		time.Sleep(45*time.Second - time.Millisecond)
		at(Stock{Fresh: 1, Outliving: 1, NextExpiry: 15*time.Second + time.Millisecond, NextLook: time.Millisecond})
		time.Sleep(time.Millisecond)
		at(Stock{Fresh: 1, NextExpiry: 15 * time.Second, NextLook: -time.Millisecond})
		// A caller gets the token if it needs exactly the remaining life, but not if it needs more.
		if _, err := s.Take(t.Context(), Request{ID: id, Margin: margin, MinTTL: 55*time.Second + time.Millisecond}); !isEmpty(err) {
			t.Errorf("a millisecond more than it has: %v", err)
		}
		token, err := s.Take(t.Context(), Request{ID: id, Margin: margin, MinTTL: 55 * time.Second})
		if err != nil || token.TTL != 55*time.Second {
			t.Fatalf("all that it has: %v, %v", token.TTL, err)
		}
		giveBack(t, s, token)
		time.Sleep(15 * time.Second)
		at(Stock{Fresh: 1, NextExpiry: 0, NextLook: -time.Millisecond})
		time.Sleep(time.Millisecond)
		at(Stock{NextExpiry: -time.Millisecond, NextLook: -time.Millisecond})
	})
}

// Every call ends an order whose deadline has passed.
func TestOrdersEndAtTheirDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *replica, id captcha.ID) {
		k, placed := one.keys(id), time.Now()
		place(t, one, id, "a")
		expect(t, true)(one.MarkSubmitting(t.Context(), Ref{id, "a"}))
		time.Sleep(time.Minute - time.Millisecond)
		r, ok, err := one.Find(t.Context(), Ref{id, "a"})
		if err != nil || !ok || !r.Placed.Equal(placed) || !r.Until.Equal(placed.Add(time.Minute)) {
			t.Errorf("a millisecond before: %+v, %v, %v", r, ok, err)
		}
		if got := look(t, one, id); len(got.OrderAges) != 1 || got.OrderAges[0] != time.Minute-time.Millisecond || got.NextEnd != time.Millisecond {
			t.Errorf("a millisecond before: %+v", got)
		}
		time.Sleep(time.Millisecond)
		if r, ok, err := one.Find(t.Context(), Ref{id, "a"}); err != nil || ok {
			t.Errorf("at its deadline: %+v, %v", r, err)
		}
		adopted, gone, err := two.Adopt(t.Context(), id, []string{"a"})
		if err != nil || len(adopted) != 0 || len(gone) != 1 {
			t.Errorf("adopted %+v, gone %+v, %v", adopted, gone, err)
		}
		// The first call counts the order as lost and removes all its data.
		if lost, err := one.db.Slow.HGet(t.Context(), k.stats, "lost").Int(); err != nil || lost != 1 {
			t.Errorf("%d lost: %v", lost, err)
		}
		if n, err := one.db.Slow.Exists(t.Context(), k.orders, k.journal, k.leases).Result(); err != nil || n != 0 {
			t.Errorf("%d keys are left: %v", n, err)
		}
	})
}

// Place allows a new order as soon as a token or an order has expired, even without a look.
func TestExpiredTokensAndOrdersMakeRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		wanted := func(name string, want bool) {
			t.Helper()
			got, err := s.Place(t.Context(), Order{Ref: Ref{id, name}, Depth: 1, Margin: 40 * time.Second, TTL: time.Minute})
			if err != nil || got.Placed != want {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		wanted("first", true)
		wanted("beside an order", false)
		time.Sleep(time.Minute)
		wanted("after it", true)
		land(t, s, id, "after it", 0, 100*time.Second)
		wanted("beside a token", false)
		time.Sleep(60*time.Second + time.Millisecond)
		wanted("after the token met its margin", true)
	})
}

// call calls take.lua once with these requests. The method waiter.immediate must be false for each.
func call(t *testing.T, s *replica, requests ...Request) ([]string, error) {
	t.Helper()
	c, q := &takeCall{}, s.queue(requests[0].ID)
	for _, r := range requests {
		c.waiters = append(c.waiters, q.newWaiter(r, nil))
	}
	keys, args := q.encode(c, s.calls.Add(1))
	return s.takeOnce(time.Second, keys, args)
}
