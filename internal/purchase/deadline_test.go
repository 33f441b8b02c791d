package purchase

import (
	"context"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
)

// An order with an unknown outcome stays with its replica, and keeps its permit for as long as the
// service may solve the task. No replica adopts such an order.
func TestALostSubmitKeepsItsPermit(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(10 * time.Second)
			return "", context.DeadlineExceeded
		}
		o := s.order(t)
		mine := s.stock.owner(o.Ref)
		stop := s.startRunning(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Lost {
			t.Errorf("collect = %v, want Lost", r.Err)
		}
		stop()
		r := s.stock.record(o.Ref)
		if r.State != pool.Unknown || s.stock.owner(o.Ref) != mine {
			t.Errorf("in state %c, of this replica %v", r.State, s.stock.owner(o.Ref) == mine)
		}
		// The order's life, its lease and its permit end one provider time-out after the end of the
		// submit.
		if life, lease, place := time.Until(r.Until), s.stock.lease(o.Ref), s.stock.permitTTL("one", o.Ref); life != 180*time.Second || lease != life || place != life {
			t.Errorf("it lives for %v, with a lease of %v and a permit for %v; want 180s", life, lease, place)
		}
		if !s.stock.isBooked(o.Ref) {
			t.Error("its budget was given back")
		}
		time.Sleep(179 * time.Second)
		heir := s.replica("no letters")
		if got := heir.adopt(t); len(got) != 0 || s.stock.owner(o.Ref) != mine {
			t.Errorf("adopted %d orders", len(got))
		}
		heir.wantLeft(t, 1, 1, 0)
		time.Sleep(time.Second)
		heir.adopt(t)
		if orders, _ := s.stock.counts(); orders != 0 {
			t.Error("it is not forgotten")
		}
	})
}

// If a replica dies during a submit, the order and its permit expire as soon as the service can no
// longer solve the task.
func TestAnAdoptedSubmitExpires(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.foundOrder(t, pool.Submitting)
		time.Sleep(10 * time.Second)
		heir := s.replica("no letters")
		heir.provider.limit = time.Hour // the order keeps its own time-out
		heir.adopt(t)
		if life, place := time.Until(s.stock.record(o.Ref).Until), s.stock.permitTTL("one", o.Ref); life != 180*time.Second || place != life {
			t.Errorf("it lives for %v, and has its permit for %v", life, place)
		}
	})
}

// Neither an adopter nor a stopping replica retries a step after the order has expired in Redis.
func TestNoStepIsRetriedAfterTheDeadline(t *testing.T) {
	for _, stops := range []bool{false, true} {
		withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
			o := s.foundOrder(t, pool.Bought)
			time.Sleep(time.Until(o.deadline.Add(-3 * time.Second)))
			heir := s.replica("no letters")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			heir.provider.poll = func(context.Context, int) (provider.Solution, error) {
				if stops {
					stop()
				}
				return provider.Solution{Token: "03AFexample"}, nil
			}
			got := heir.adopt(t)
			s.stock.failSteps("settle")
			if r := heir.buyer.orders.collect(ctx, got[0]); r.Outcome != Lost || time.Now().After(o.deadline) {
				t.Errorf("stopped %v: collect = %v, %v after the deadline", stops, r.Err, time.Since(o.deadline))
			}
		})
	}
}
