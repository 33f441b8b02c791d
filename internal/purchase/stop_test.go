package purchase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/provider"
	"poold/internal/redisdb"
)

// A stop between the mark and the submit removes the order.
func TestAStopBeforeTheSubmitBuysNothing(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		s.stock.lostReply = func(step string) error {
			if step == "mark" {
				stop()
			}
			return nil
		}
		r := s.buyer.orders.collect(ctx, o)
		if slices.Contains(s.all(), "submit") {
			t.Errorf("bought after the stop: %v, %q", r.Err, s.all())
		}
	})
}

// A stop waits for a submit in flight, and the task id is stored. The order stays in the journal
// and is not polled.
func TestAStopWaitsForASubmitInFlight(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		ctx, stop := context.WithCancel(t.Context())
		s.provider.submit = func(own context.Context) (string, error) {
			time.AfterFunc(time.Second, stop)
			select {
			case <-own.Done():
				return "", own.Err()
			case <-time.After(10 * time.Second):
				return "t1", nil
			}
		}
		if r := s.buyer.orders.collect(ctx, s.order(t)); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "let go")
		if orders, places := s.stock.counts(); orders != 1 || places != 1 || s.buyer.slots()[0] != 0 {
			t.Errorf("left: %d orders, %d permits, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// A stop between two polls returns immediately, and the order stays in the journal.
func TestAStopEndsPollingAtOnce(t *testing.T) {
	for name, after := range map[string]time.Duration{"in the wait": 3 * time.Second, "in a poll": 16 * time.Second} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				<-ctx.Done()
				return provider.Solution{}, ctx.Err()
			}
			ctx, stop := context.WithTimeout(t.Context(), after)
			defer stop()
			began := time.Now()
			if r := s.buyer.orders.collect(ctx, s.order(t)); !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("collect = %v, want ctx's error", r.Err)
			}
			if took := time.Since(began); took != after {
				t.Errorf("returned after %v, want %v", took, after)
			}
			if orders, places := s.stock.counts(); orders != 1 || places != 1 {
				t.Errorf("left: %d orders, %d permits", orders, places)
			}
			if got := s.all(); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "login at") }) {
				t.Errorf("an outcome of an order in flight: %q", got)
			}
		})
	}
}

// A received token lands in spite of a stop, even after a short outage of Redis. The stop does not
// wait for the end of a longer outage.
func TestAStopLandsAReceivedToken(t *testing.T) {
	for _, away := range []time.Duration{2 * time.Second, time.Hour} {
		runBubble(t, fmt.Sprint(away), func(t *testing.T) {
			s := newTestBuyer(t, 1)
			ctx, stop := context.WithCancel(t.Context())
			began := time.Now()
			s.provider.poll = func(context.Context, int) (provider.Solution, error) {
				stop()
				began = time.Now()
				return provider.Solution{Token: "03AFexample"}, nil
			}
			s.stock.fault = func(step string) error {
				if step == "settle" && time.Since(began) < away {
					return redisdb.ErrDown
				}
				return nil
			}
			r := s.buyer.orders.collect(ctx, s.order(t))
			landed := len(s.stock.landed()) == 1
			if want := away < stopGrace; landed != want || (r.Outcome == Solved) != want {
				t.Errorf("landed %v, collect = %v", landed, r.Err)
			}
			if took := time.Since(began); took > stopGrace {
				t.Errorf("the stop waited for %v", took)
			}
		})
	}
}

// A stop ends the lease of a pending order, so that another replica can adopt it.
func TestAStopEndsLeases(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if r := s.buyer.orders.collect(ctx, o); !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("collect = %v, want ctx's error", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "let go")
		if left := s.stock.lease(o.Ref); left > 0 {
			t.Errorf("it cannot be adopted for %v", left)
		}
		s.wantLeft(t, 1, 1, 0)
	})
}
