package pool

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// A token that is put back within its margin counts as expired.
func TestReturnWithinTheMarginExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		for _, c := range []struct {
			left  time.Duration
			fresh int
		}{{40 * time.Second, 1}, {40*time.Second - time.Millisecond, 0}} {
			stock(t, s, id, 1, 0, 100*time.Second)
			token := take(t, s, Request{ID: id, Margin: 40 * time.Second}, 1)[0]
			time.Sleep(token.TTL - c.left)
			before := look(t, s, id).Figures
			giveBack(t, s, token)
			got := look(t, s, id)
			if got.Fresh != c.fresh || got.Figures.Returned != before.Returned+1 || got.Figures.Expired != before.Expired+int64(1-c.fresh) {
				t.Errorf("with %v left: %+v", c.left, got)
			}
			if _, err := s.Flush(t.Context(), id, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An order exists only if it is both in the journal and in the set of orders.
func TestHalfWrittenOrdersAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *replica, id captcha.ID) {
		k := one.keys(id)
		for _, half := range []struct {
			name string
			cut  func(order string) error
		}{
			{"without a deadline", func(order string) error { return one.db.Slow.ZRem(t.Context(), k.orders, order).Err() }},
			{"without a line", func(order string) error { return one.db.Slow.HDel(t.Context(), k.journal, order).Err() }},
		} {
			place(t, one, id, half.name)
			order := Ref{id, half.name}
			expect(t, true)(one.MarkSubmitting(t.Context(), order))
			must(t, half.cut(half.name))
			before := look(t, one, id).Figures
			if ok, err := one.MarkSubmitting(t.Context(), order); err != nil || ok {
				t.Errorf("%s: marked: %v", half.name, err)
			}
			if ok, err := one.Submitted(t.Context(), order, "t"); err != nil || ok {
				t.Errorf("%s: submitted: %v", half.name, err)
			}
			if ok, err := one.Unknown(t.Context(), order, time.Minute); err != nil || ok {
				t.Errorf("%s: noted as unknown: %v", half.name, err)
			}
			if r, ok, err := one.Find(t.Context(), order); err != nil || ok {
				t.Errorf("%s: found %+v, %v", half.name, r, err)
			}
			for _, callback := range []bool{false, true} {
				if how, err := one.Fail(t.Context(), Failure{Ref: order, Bought: true, Callback: callback, Call: "f"}); err != nil || how != Gone {
					t.Errorf("%s: failed: %v, %v", half.name, how, err)
				}
				if how, err := one.Settle(t.Context(), Landing{Ref: order, Value: half.name, Lifetime: time.Minute, Callback: callback, Call: "s"}); err != nil || how != Gone {
					t.Errorf("%s: settled: %v, %v", half.name, how, err)
				}
			}
			time.Sleep(2 * Lease)
			if adopted, gone, err := two.Adopt(t.Context(), id, []string{half.name}); err != nil || len(adopted) != 0 || len(gone) != 1 || gone[0] != order {
				t.Errorf("%s: adopted %+v, gone %+v, %v", half.name, adopted, gone, err)
			}
			if got := look(t, one, id); got.Figures != before || got.Fresh != 0 {
				t.Errorf("%s: %+v, before %+v", half.name, got.Figures, before)
			}
		}
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

// After its end, an order leaves only its sale in Redis.
func TestEndedOrdersLeaveOnlyTheirSale(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		k := s.keys(id)
		for i, end := range []func(order Ref) (EndResult, error){
			func(order Ref) (EndResult, error) {
				return s.Settle(t.Context(), Landing{Ref: order, Value: "x", Lifetime: time.Minute})
			},
			func(order Ref) (EndResult, error) { return s.Fail(t.Context(), Failure{Ref: order, Bought: true}) },
			func(order Ref) (EndResult, error) { return s.Fail(t.Context(), Failure{Ref: order}) },
		} {
			place(t, s, id, "a")
			expect(t, Ended)(end(Ref{id, "a"}))
			if n, err := s.db.Slow.Exists(t.Context(), k.orders, k.journal, k.leases).Result(); err != nil || n != 0 {
				t.Errorf("end %d: %d keys are left: %v", i, n, err)
			}
		}
	})
}

// An order with a known task is not submitted again. If Settle returned Repeated, a retry of the
// call also returns Repeated.
func TestRetriedMarksAndRepeatedTexts(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		place(t, s, id, "a")
		expect(t, true)(s.Submitted(t.Context(), Ref{id, "a"}, "t"))
		if ok, err := s.MarkSubmitting(t.Context(), Ref{id, "a"}); err != nil || ok {
			t.Errorf("marked although its task is known: %v", err)
		}
		expect(t, Ended)(s.Settle(t.Context(), Landing{Ref: Ref{id, "a"}, Value: "x", Lifetime: time.Minute}))
		place(t, s, id, "b")
		for range 2 {
			how, err := s.Settle(t.Context(), Landing{Ref: Ref{id, "b"}, Value: "x", Lifetime: time.Minute, Call: "c"})
			if err != nil || how != Repeated {
				t.Errorf("a text that was sold before: %v, %v", how, err)
			}
		}
		if f := look(t, s, id).Figures; f.Failed != 1 || f.Solved != 1 || f.Bought != 2 {
			t.Errorf("%+v", f)
		}
	})
}

// A look with Keep extends the life of the learned state and of the figures. An unreadable line of
// the journal stays until its order no longer counts as in flight.
func TestLooksProlongKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		const month = 30 * 24 * time.Hour
		k := s.keys(id)
		stock(t, s, id, 1, 0, 24*time.Hour)
		token := take(t, s, Request{ID: id, Caller: "me"}, 1)[0]
		if _, err := s.Report(t.Context(), id, token.ID, "me", true); err != nil {
			t.Fatal(err)
		}
		stock(t, s, id, 1, 0, 24*time.Hour)
		time.Sleep(time.Minute)
		place(t, s, id, "left")
		must(t, s.Pause(t.Context(), id, Pause{}))
		must(t, s.Remember(t.Context(), id, []byte("learned")))
		all := []string{k.tokens, k.orders, k.journal, k.leases, k.stats, k.paused, k.leads, k.verdicts, k.learned, k.hour, k.hours}
		lives := func(after string, want time.Duration) {
			t.Helper()
			for _, key := range all {
				if got := ttl(t, s, key); got != want {
					t.Errorf("%s lives for %v after %s, want %v", key, got, after, want)
				}
			}
		}
		time.Sleep(time.Second)
		look(t, s, id)
		must(t, s.db.Slow.Set(t.Context(), k.hours, "|1 0 0 0 0 0 0 1 1", 0).Err())
		look(t, s, id)
		lives("a look", month)
		// After LastLook the keys live a little longer than any token or order.
		must(t, s.LastLook(t.Context(), id, 0))
		lives("the last look", leftKeyLife)
		if _, err := s.LookAll(t.Context(), []Query{{ID: id}}); err != nil {
			t.Fatal(err)
		}
		lives("a survey that keeps nothing", leftKeyLife)
		if _, err := s.LookAll(t.Context(), []Query{{ID: id, Keep: true}}); err != nil { // the identity has a target again
			t.Fatal(err)
		}
		lives("a survey", month)
		expect(t, Ended)(s.Fail(t.Context(), Failure{Ref: Ref{id, "left"}}))

		must(t, s.db.Slow.HSet(t.Context(), k.journal, "odd", "of a later version").Err())
		must(t, s.db.Slow.ZAdd(t.Context(), k.orders, redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: "odd"}).Err())
		if got := look(t, s, id); got.Orders != 1 || got.Figures.Junk != 0 {
			t.Errorf("while its order counts: %+v", got)
		}
		time.Sleep(time.Minute)
		if got := look(t, s, id); got.Orders != 0 || got.Figures.Junk != 1 || ttl(t, s, k.junk) != 7*24*time.Hour {
			t.Errorf("afterwards: %+v, kept for %v", got, ttl(t, s, k.junk))
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

// If a key of an order holds a foreign value, Place stores no part of the order.
func TestPlaceChangesNothingBesideAForeignKey(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		k := s.keys(id)
		for _, foreign := range []string{k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.leases, k.spend} {
			must(t, s.db.Slow.Set(t.Context(), foreign, "another program's", time.Hour).Err())
			if got, err := s.Place(t.Context(), Order{Ref: Ref{id, "a"}, Depth: 9, TTL: time.Minute, PerDay: 9}); err == nil {
				t.Errorf("placed beside %s: %+v", foreign, got)
			}
			must(t, s.db.Slow.Del(t.Context(), foreign).Err())
			if n, err := s.db.Slow.Exists(t.Context(), k.orders, k.journal, k.leases, k.spend).Result(); err != nil || n != 0 {
				t.Errorf("beside %s: %d keys are left, %v", foreign, n, err)
			}
		}
	})
}

// A token that is dead when it lands is counted but not stored. The lists of lead times and reports
// are sorted newest first and have a maximum length.
func TestDeadLandingsLeadsAndReports(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		k := s.keys(id)
		place(t, s, id, "late")
		land(t, s, id, "late", 100*time.Second, 100*time.Second)
		if got := look(t, s, id); got.Fresh != 0 || got.Figures.Solved != 1 || got.Figures.Expired != 1 {
			t.Errorf("landed dead: %+v", got)
		}
		if n, err := s.db.Slow.Exists(t.Context(), k.tokens, k.values).Result(); err != nil || n != 0 {
			t.Errorf("landed dead, and %d keys are there: %v", n, err)
		}
		for i := range 50 {
			order := Ref{id, "o" + strconv.Itoa(i)}
			place(t, s, id, order.Order)
			expect(t, Ended)(s.Settle(t.Context(), Landing{Ref: order, Value: order.Order, Lifetime: time.Hour, Lead: time.Duration(i+1) * time.Second}))
			if i < 22 {
				token := take(t, s, Request{ID: id, Caller: "me"}, 1)[0]
				time.Sleep(time.Second)
				kept := ttl(t, s, k.sale+order.Order)
				if sale, err := s.Report(t.Context(), id, token.ID, "me", i != 21); err != nil || sale.Age != time.Second {
					t.Fatal(sale, err)
				}
				if got := ttl(t, s, k.sale+order.Order); got != kept {
					t.Errorf("a sale is kept for %v after its report, before for %v", got, kept)
				}
			}
		}
		got := look(t, s, id)
		if len(got.Leads) != 48 || got.Leads[0] != 50*time.Second || got.Leads[47] != 3*time.Second {
			t.Errorf("lead times: %v", got.Leads)
		}
		if len(got.Verdicts) != 20 || got.Verdicts[0] || !got.Verdicts[1] || got.Figures.Accepted != 21 || got.Figures.Rejected != 1 {
			t.Errorf("reports: %v, %+v", got.Verdicts, got.Figures)
		}
	})
}

// A caller that hangs up during its wait is not a miss. A caller whose wait ends is a miss.
func TestHangUpsAreNoMisses(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		ctx, hangUp := context.WithCancel(t.Context())
		request := Request{ID: id, Wait: 10 * time.Second, MaxWaiting: 9}
		gone := make(chan error, 1)
		go func() {
			_, err := s.Take(ctx, request)
			gone <- err
		}()
		time.Sleep(time.Second)
		hangUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("hung up: %v", err)
		}
		if _, err := s.Take(t.Context(), request); !isEmpty(err) {
			t.Errorf("waited in vain: %v", err)
		}
		time.Sleep(time.Second)
		if f := look(t, s, id).Figures; f.Requests != 2 || f.Misses != 1 {
			t.Errorf("%+v", f)
		}
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

// The callers in one call of take.lua share the limit of tickets.
func TestCallersOfOneCallShareTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		waits := Request{ID: id, Wait: time.Minute, MaxWaiting: 2}
		reply, err := call(t, s, waits, waits, waits)
		if err != nil || len(reply) != 8 || reply[2] != "parked" || reply[4] != "parked" || reply[6] != "full" {
			t.Errorf("three where two may wait: %v, %v", reply, err)
		}
		k := s.keys(id)
		if tickets, seen := ttl(t, s, k.tickets), ttl(t, s, k.seen); tickets != time.Minute || seen != time.Minute {
			t.Errorf("the queue lives for %v, %v", tickets, seen)
		}
	})
}

// If the queue holds a foreign value, a call of take.lua hands out no token, even to callers that
// need no ticket.
func TestTakeHandsOutNothingBesideAForeignQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		stock(t, s, id, 1, 0, time.Hour)
		k := s.keys(id)
		must(t, s.db.Slow.Set(t.Context(), k.tickets, "another program's", time.Hour).Err())
		reply, err := call(t, s, Request{ID: id, Idempotency: "k"}, Request{ID: id, Wait: time.Minute, MaxWaiting: 9, MinTTL: 2 * time.Hour})
		if err == nil {
			t.Errorf("answered %v", reply)
		}
		must(t, s.db.Slow.Del(t.Context(), k.tickets).Err())
		if receipts, err := s.db.Slow.Keys(t.Context(), k.once+"*").Result(); err != nil || len(receipts) != 0 {
			t.Errorf("receipts: %v, %v", receipts, err)
		}
		if got := look(t, s, id); got.Fresh != 1 || got.Figures.Hits != 0 {
			t.Errorf("%+v", got)
		}
	})
}
