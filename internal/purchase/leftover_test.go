package purchase

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
)

// Redis hangs while an order is placed, carries the step out after the order was
// taken back, and answers again: nothing stays behind for the order's time.
func TestStepsThatAreCarriedOutLateAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.desk.Run(ctx) }()
		slot, err := s.desk.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		hung := true
		s.stock.mu.Lock()
		s.stock.fault = func(string) error {
			if hung {
				return fmt.Errorf("%w: i/o timeout", pool.ErrDown)
			}
			return nil
		}
		s.stock.mu.Unlock()
		if _, err := s.desk.Place(t.Context(), slot, spec()); !errors.Is(err, pool.ErrDown) {
			t.Fatalf("place = %v", err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.desk.mu.Lock()
		left := s.desk.leftovers[0].order
		s.desk.mu.Unlock()
		s.stock.mu.Lock()
		s.stock.places["one"] = map[pool.Ref]bool{left.Ref: true} // late
		s.stock.orders[left.Ref] = &entry{state: pool.Intent}
		hung = false
		s.stock.mu.Unlock()
		time.Sleep(3 * time.Second)
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left behind: %d orders, %d places", orders, places)
		}
		s.desk.mu.Lock()
		if n := len(s.desk.leftovers); n != 0 {
			t.Errorf("%d leftovers are still remembered", n)
		}
		s.desk.mu.Unlock()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// An order that Redis has forgotten brings no token into the stock, and nobody
// is told that it did.
func TestAForgottenOrderIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		o := s.order(t)
		s.seat.submit = func(context.Context) (string, error) {
			s.stock.change(func() { clear(s.stock.orders) })
			return "t1", nil
		}
		if err := s.desk.Collect(t.Context(), o); !errors.Is(err, ErrLost) {
			t.Errorf("collect = %v, want ErrLost", err)
		}
		if n := len(s.stock.landed()); n != 0 {
			t.Errorf("%d tokens landed", n)
		}
		if told := s.all(); told[len(told)-1] != "login at one: lost" {
			t.Errorf("told %q", told)
		}
	})
}
