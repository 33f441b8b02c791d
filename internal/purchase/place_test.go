package purchase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// buy admits and buys an order. It returns a channel for the order's result.
func (s *testBuyer) buy(t *testing.T, target Spec) (<-chan Result, error) {
	t.Helper()
	slot, _, _ := mustAdmit(t, s.buyer)
	ended := make(chan Result, 1)
	return ended, s.buyer.Buy(t.Context(), slot, target, func(r Result) { ended <- r })
}

// The number of orders in flight is limited. Above the limit, Buy returns an error.
func TestOrdersAreBounded(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		found := s.foundOrder(t, pool.Bought)
		heir := s.replica("no letters")
		hold := make(chan struct{})
		for range maxOrders {
			heir.buyer.orders.group.Go(func() error { <-hold; return nil })
		}
		if _, err := heir.buy(t, spec()); !errors.Is(err, ErrBusy) || heir.buyer.slots()[0] != 0 {
			t.Errorf("buy = %v, %v slots are taken", err, heir.buyer.slots())
		}
		// An adopted order above the limit is left to other replicas.
		err := heir.buyer.Adopt(t.Context(), time.Second, func(captcha.ID, Result) { t.Error("an order ended") })
		if err != nil || heir.buyer.slots()[0] != 0 {
			t.Errorf("adopt = %v, %v slots are taken", err, heir.buyer.slots())
		}
		close(hold)
		if err := heir.buyer.Wait(); err != nil {
			t.Error(err)
		}
		var ends []Result
		third := s.replica("no letters")
		err = third.buyer.Adopt(t.Context(), 0, func(id captcha.ID, r Result) {
			if id != found.Identity {
				t.Errorf("an order of %v ended", id)
			}
			ends = append(ends, r)
		})
		err = errors.Join(err, third.buyer.Wait())
		if err != nil || len(ends) != 1 || ends[0].Outcome != Solved {
			t.Errorf("then adopt = %v, %+v", err, ends)
		}
	})
}

// Buy acquires the permit before it creates the order. Each reservation lives longer than the order.
func TestPlaceReservesFirst(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := mustPlace(t, s.buyer, spec())
		s.want(t, "reserve", "place")
		placed := s.stock.placed[o.Ref]
		want := pool.Order{
			Ref: o.Ref, Depth: 10, Margin: 40 * time.Second,
			Lead: 20 * time.Second, TTL: s.provider.limit + 2*callTime, Facts: placed.Facts, NotAfter: placed.NotAfter,
		}
		// Redis does not execute a step after NotAfter.
		if late := time.UnixMilli(int64(placed.NotAfter)).Sub(o.placed); late > stockTime+clockSlack || late < stockTime+clockSlack-time.Second {
			t.Errorf("the placing may be carried out %v late", late)
		}
		if placed != want {
			t.Errorf("placed %+v, want %+v", placed, want)
		}
		if facts := `{"target":"login","owner":"qa@example.com","provider":"one","identity":{"type":"recaptcha_v2","sitekey":"k","pageurl":"https://example.com/"},` +
			`"lifetime_ms":120000,"margin_ms":40000,"callback_delay_ms":0,"timeout_ms":180000,"choice":"ordered"}`; s.stock.facts(o.Ref) != facts {
			t.Errorf("facts %s, want %s", s.stock.facts(o.Ref), facts)
		}
		if len(o.Order) < 26 {
			t.Errorf("order id %q has fewer than 128 bits", o.Order)
		}
	})
}

// If a step of the placement fails, no reservation is left and the slot is free.
func TestPlaceLeavesNothingBehind(t *testing.T) {
	away := fmt.Errorf("%w: i/o timeout", redisdb.ErrDown)
	cases := map[string]struct {
		prepare func(s *testBuyer, target *Spec)
		want    error
		steps   []string
	}{
		"depth refuses": {
			func(_ *testBuyer, target *Spec) { target.Depth = 0 }, ErrDepth,
			[]string{"reserve", "place", "release"},
		},
		"buying is paused": {
			func(s *testBuyer, target *Spec) { s.stock.pauseElsewhere(target.ID) }, ErrDepth,
			[]string{"reserve", "place", "release"},
		},
		"redis away": {
			func(s *testBuyer, _ *Spec) { s.stock.fault = func(string) error { return away } }, redisdb.ErrDown,
			nil,
		},
		"redis away at the second step": {
			func(s *testBuyer, _ *Spec) {
				s.stock.fault = func(step string) error {
					if step == "place" {
						return away
					}
					return nil
				}
			}, redisdb.ErrDown,
			[]string{"reserve", "fail bought=false", "release"},
		},
		"answer to reserve lost": {
			func(s *testBuyer, _ *Spec) { s.stock.lostReply = loseAnswer("reserve", away) }, redisdb.ErrDown,
			[]string{"reserve", "fail bought=false", "release"},
		},
		"answer to place lost": {
			func(s *testBuyer, _ *Spec) { s.stock.lostReply = loseAnswer("place", away) }, redisdb.ErrDown,
			[]string{"reserve", "place", "fail bought=false", "release"},
		},
	}
	for name, c := range cases {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			slot, _, _ := mustAdmit(t, s.buyer)
			target := spec()
			c.prepare(s, &target)
			if _, err := s.buyer.placer.place(t.Context(), slot, target); !errors.Is(err, c.want) {
				t.Errorf("place = %v, want %v", err, c.want)
			}
			s.want(t, c.steps...)
			if orders, places := s.stock.counts(); orders != 0 || places != 0 {
				t.Errorf("left behind: %d orders, %d permits", orders, places)
			}
			if taken := s.buyer.slots(); taken[0] != 0 {
				t.Errorf("%d slots taken", taken[0])
			}
		})
	}
}

// If other replicas have all permits, the order is refused, and this replica does not try the
// provider again for a short time.
func TestAProviderFullAtOtherReplicasIsLeftAlone(t *testing.T) {
	withBuyer(t, 2, func(t *testing.T, s *testBuyer) {
		ctx := boundedCtx(t)
		for _, foreign := range []string{"a", "b"} {
			if p, err := s.stock.other().Acquire(ctx, "one", pool.Ref{Identity: spec().ID, Order: foreign}, 2, time.Hour, -1); err != nil || !p.OK {
				t.Fatal(p.OK, err)
			}
		}
		slot, _, _ := mustAdmit(t, s.buyer)
		if _, err := s.buyer.placer.place(ctx, slot, spec()); !errors.Is(err, ErrBusy) {
			t.Fatalf("place = %v, want ErrBusy", err)
		}
		if got := s.all(); slices.Contains(got, "place") {
			t.Errorf("an order was placed without a permit: %v", got)
		}
		slot, _, took := mustAdmit(t, s.buyer)
		if took != fullFor {
			t.Errorf("the next admission took %v, want %v", took, fullFor)
		}
		if err := s.stock.other().Release(ctx, "one", pool.Ref{Identity: spec().ID, Order: "a"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.buyer.placer.place(ctx, slot, spec()); err != nil {
			t.Errorf("place = %v after a permit was released", err)
		}
	})
}

// Redis hangs while an order is placed, and executes a step after the order was removed. The late
// step is undone before the order expires.
func TestLateStepsAreRolledBack(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.buyer.Run(ctx) }()
		slot, _, _ := mustAdmit(t, s.buyer)
		s.stock.change(func() { s.stock.fault = func(string) error { return fmt.Errorf("%w: i/o timeout", redisdb.ErrDown) } })
		if _, err := s.buyer.placer.place(t.Context(), slot, spec()); !errors.Is(err, redisdb.ErrDown) {
			t.Fatalf("place = %v", err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.buyer.placer.mu.Lock()
		left := s.buyer.placer.leftovers[0].order
		s.buyer.placer.mu.Unlock()
		// Redis now executes the late step of this replica.
		if p, err := s.stock.Store.Acquire(t.Context(), "one", left.Ref, 9, time.Hour, -1); err != nil || !p.OK {
			t.Fatal(p.OK, err)
		}
		if p, err := s.stock.Store.Place(t.Context(), pool.Order{Ref: left.Ref, Depth: 9, TTL: time.Hour}); err != nil || !p.Placed {
			t.Fatal(p, err)
		}
		s.wantLeft(t, 1, 1, 0)
		s.stock.failSteps()
		time.Sleep(3 * time.Second)
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left behind: %d orders, %d permits", orders, places)
		}
		s.buyer.placer.mu.Lock()
		if n := len(s.buyer.placer.leftovers); n != 0 {
			t.Errorf("%d leftovers are still remembered", n)
		}
		s.buyer.placer.mu.Unlock()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// If Redis has lost an order, its token does not land, and the order is not reported as solved.
func TestAForgottenOrderIsLost(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		s.provider.submit = func(context.Context) (string, error) {
			s.stock.forgetOrder(o.Ref)
			return "t1", nil
		}
		if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Lost {
			t.Errorf("collect = %v, want Lost", r.Err)
		}
		if n := len(s.stock.landed()); n != 0 {
			t.Errorf("%d tokens landed", n)
		}
		if told := s.all(); told[len(told)-1] != "login at one: lost" {
			t.Errorf("reported %q", told)
		}
	})
}
