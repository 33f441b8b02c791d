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

// A stop lets a submit in flight finish and stores its task id, then leaves
// the order in the journal without polling.
func TestStopWhileSubmitting(t *testing.T) {
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
			t.Errorf("left: %d orders, %d places, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// A stop while polling returns at once and leaves the order in the journal.
func TestStopWhilePolling(t *testing.T) {
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
				t.Errorf("left: %d orders, %d places", orders, places)
			}
			if got := s.all(); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "login at") }) {
				t.Errorf("an outcome was told of an order that goes on: %q", got)
			}
		})
	}
}

// Nothing is bought after the end: an order that was placed but not submitted
// is taken back.
func TestStopBeforeSubmitting(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if r := s.buyer.orders.collect(ctx, o); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", r.Err)
		}
		s.want(t, "fail bought=false", "release")
		if s.buyer.slots()[0] != 0 {
			t.Error("the slot was not freed")
		}
	})
}

// A token that has come is landed in spite of a stop, also if Redis is away
// for a moment; but the stop does not wait for Redis for ever.
func TestStopWithATokenInHand(t *testing.T) {
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
