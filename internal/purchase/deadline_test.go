package purchase

import (
	"context"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
)

// A placed order has a lease of 5 s. The order expires after the provider's time-out plus 40 s for
// two calls. Its permit expires 10 s later.
func TestThePeriodsOfAPlacedOrder(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		r := s.stock.record(o.Ref)
		if lease := s.stock.lease(o.Ref); lease != 5*time.Second {
			t.Errorf("placed with a lease of %v", lease)
		}
		if life := time.Until(r.Until); life != 220*time.Second {
			t.Errorf("placed for %v", life)
		}
		if place := s.stock.permitTTL("one", o.Ref); place != 230*time.Second {
			t.Errorf("it has its permit for %v", place)
		}
		if o.deadline != r.Until {
			t.Errorf("the buyer gives up at %v, redis at %v", o.deadline, r.Until)
		}
	})
}

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

// A task is bound to its order for as long as the order can be in flight, even if only the callback
// contained the task id.
func TestATaskIsClaimedForAnOrdersLife(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
			t.Fatal(r.Err)
		}
		if ttl := s.stock.redis.TTL(testPrefix + ":task:{one}:t1"); ttl != 220*time.Second-40*time.Second { // the task was polled after 40 s
			t.Errorf("the submit's task is claimed for %v more", ttl)
		}
		s.provider.submit = func(context.Context) (string, error) { return "", context.DeadlineExceeded }
		_ = s.buyer.orders.collect(t.Context(), s.order(t))
		time.Sleep(20 * time.Second)
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t2&code=03AFcallback"))
		if ttl := s.stock.redis.TTL(testPrefix + ":task:{one}:t2"); ttl != 160*time.Second {
			t.Errorf("the callback's task is claimed for %v", ttl)
		}
		if n := len(s.buyer.callbacks.arrivals.at); n != 0 {
			t.Errorf("%d arrivals are remembered of callbacks that were delivered", n)
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
