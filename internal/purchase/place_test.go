package purchase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

// Redis hangs while an order is placed, carries the step out after the order was
// taken back, and answers again: nothing stays behind for the order's time.
func TestStepsThatAreCarriedOutLateAreTakenBack(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.buyer.Run(ctx) }()
		slot, err := s.buyer.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		s.stock.change(func() { s.stock.fault = func(string) error { return fmt.Errorf("%w: i/o timeout", redisdb.ErrDown) } })
		if _, err := s.buyer.placer.place(t.Context(), slot, spec()); !errors.Is(err, redisdb.ErrDown) {
			t.Fatalf("place = %v", err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.buyer.placer.mu.Lock()
		left := s.buyer.placer.leftovers[0].order
		s.buyer.placer.mu.Unlock()
		// Late, and by the same replica.
		if p, err := s.stock.Store.Acquire(t.Context(), "one", left.Ref, 9, time.Hour, -1); err != nil || !p.OK {
			t.Fatal(p.OK, err)
		}
		if p, err := s.stock.Store.Place(t.Context(), pool.Order{Ref: left.Ref, Depth: 9, TTL: time.Hour}); err != nil || !p.Placed {
			t.Fatal(p, err)
		}
		s.wantLeft(t, 1, 1, 0)
		s.stock.away()
		time.Sleep(3 * time.Second)
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left behind: %d orders, %d places", orders, places)
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

// An order that Redis has forgotten brings no token into the stock, and nobody
// is told that it did.
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
			t.Errorf("told %q", told)
		}
	})
}

// Redis may carry the step out after the order was taken back already: so it is
// taken back once more, and then forgotten.
func TestLeftoversAreTakenBackTwice(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		s.stock.lostReply = lose("place", redisdb.ErrDown)
		slot, _, _ := mustAdmit(t, s.buyer)
		if _, err := s.buyer.placer.place(t.Context(), slot, spec()); !errors.Is(err, redisdb.ErrDown) {
			t.Fatalf("place = %v", err)
		}
		s.stock.lostReply = nil
		left := s.buyer.placer.leftovers[0].order
		late := func() {
			if p, err := s.stock.Store.Place(t.Context(), s.stock.placed[left.Ref]); err != nil || !p.Placed {
				t.Fatal(p, err)
			}
			s.reserve(t, "one", left.Ref)
			if wait, err := s.stock.Store.Book(t.Context(), pool.Overall, left.Ref, pool.Caps{PerDay: 5}, 0); err != nil || wait != 0 {
				t.Fatal(wait, err)
			}
		}
		for i := range 2 {
			late()
			s.buyer.placer.retry(t.Context())
			s.wantLeft(t, 0, 0, 0)
			if want := 1 - i; len(s.buyer.placer.leftovers) != want || len(s.stock.booked()) != 0 {
				t.Errorf("%d leftovers, want %d, %q booked", len(s.buyer.placer.leftovers), want, s.stock.booked())
			}
		}
	})
}

// What is left while others are taken back is remembered beside them.
func TestLeftoversOfAMeanwhile(t *testing.T) {
	withBuyer(t, 2, func(t *testing.T, s *testBuyer) {
		first, second := s.order(t), s.order(t)
		s.buyer.placer.later(first)
		s.stock.fault = func(string) error {
			s.stock.away()
			s.buyer.placer.later(second)
			return nil
		}
		for want := range slices.Values([]int{2, 1, 0}) {
			s.buyer.placer.retry(t.Context())
			if n := len(s.buyer.placer.leftovers); n != want {
				t.Errorf("%d leftovers, want %d", n, want)
			}
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left behind: %d orders, %d places", orders, places)
		}
	})
}

// A fault while leftovers are taken back forgets none.
func TestAPanicForgetsNoLeftovers(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.stock.away("")
		slot, _, _ := mustAdmit(t, s.buyer)
		_, _ = s.buyer.placer.place(t.Context(), slot, spec())
		s.stock.change(func() { s.stock.fault = func(string) error { panic("?") } })
		s.buyer.contain(func() { s.buyer.placer.retry(t.Context()) })
		if len(s.buyer.placer.leftovers) != 1 {
			t.Errorf("%d leftovers", len(s.buyer.placer.leftovers))
		}
	})
}
