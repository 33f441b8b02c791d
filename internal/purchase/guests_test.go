package purchase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

// guest returns the spec of an order for an identity without a target.
func guest(caps pool.Caps) Spec {
	g := spec()
	g.Target, g.Guests = "/solve", caps
	return g
}

// An order for a guest reserves a solve in the overall budget and then in the guests' budget. If
// the guests' budget refuses the order, the reservation in the overall budget is returned.
func TestAGuestsOrderNeedsBothBudgets(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(9)
		caps := pool.Caps{PerHour: 1, PerDay: 2}
		place := func(what Spec) error {
			t.Helper()
			slot, _, _ := mustAdmit(t, s.buyer)
			s.forget()
			_, err := s.buyer.placer.place(t.Context(), slot, what)
			return err
		}
		refused := func(want time.Duration) {
			t.Helper()
			var full *BudgetError
			err := place(guest(caps))
			if !errors.As(err, &full) || *full != (BudgetError{Of: pool.OfGuests, RetryAfter: want}) || !strings.Contains(err.Error(), "without a target") {
				t.Errorf("place = %v, want a wait of %v", err, want)
			}
			s.want(t, "reserve", "book", "book of solve", "book of solve", "refund", "refund of solve", "release")
		}
		if err := place(guest(caps)); err != nil {
			t.Fatal(err)
		}
		s.want(t, "reserve", "book", "book of solve", "place")
		refused(time.Hour - budgetRetry)
		if len(s.stock.booked()) != 1 || len(s.stock.bookedOf(pool.OfGuests)) != 1 {
			t.Errorf("booked: %q, for guests %q", s.stock.booked(), s.stock.bookedOf(pool.OfGuests))
		}
		if err := place(spec()); err != nil {
			t.Errorf("an order of a target: %v", err)
		}
		s.want(t, "reserve", "book", "place")
		time.Sleep(time.Hour)
		if err := place(guest(caps)); err != nil {
			t.Errorf("in the next hour: %v", err)
		}
		if hour, day, err := s.buyer.BookedForGuests(t.Context()); hour != 1 || day != 2 || err != nil {
			t.Errorf("used %d and %d, %v", hour, day, err)
		}
		time.Sleep(2 * time.Hour)
		refused(21*time.Hour - 2*budgetRetry)
		s.stock.failSteps("look")
		if _, _, err := s.buyer.BookedForGuests(t.Context()); !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("while redis is away: %v", err)
		}
	})
}

// Eight replicas buy for guests concurrently. Meanwhile steps fail, replies are lost, and replicas
// die between two steps. No budget is exceeded, and each bought order counts in both budgets.
func TestSharedBudgetsHoldOverReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		overall int
		guests  pool.Caps
		most    int
	}{
		"the guests' of the hour": {90, pool.Caps{PerHour: 7, PerDay: 50}, 7},
		"the guests' of the day":  {90, pool.Caps{PerHour: 50, PerDay: 7}, 7},
		"the overall":             {7, pool.Caps{PerDay: 50}, 7},
	} {
		runBubble(t, name, func(t *testing.T) {
			weather := rand.New(rand.NewPCG(1, 2))
			first := newTestBuyer(t, 50)
			first.stock.change(func() {
				chance := func(share float64) bool {
					first.stock.mu.Lock()
					defer first.stock.mu.Unlock()
					return weather.Float64() < share
				}
				first.stock.fault = func(step string) error {
					switch {
					case chance(0.1):
						return redisdb.ErrDown
					case chance(0.05) && (strings.HasPrefix(step, "book") || step == "place" || step == "mark"):
						panic("killed before " + step)
					}
					return nil
				}
				first.stock.lostReply = func(string) error {
					if chance(0.1) {
						return redisdb.ErrDown
					}
					return nil
				}
			})
			replicas := []*testBuyer{first}
			for len(replicas) < 8 {
				replicas = append(replicas, first.replica("no letters"))
			}
			var bought atomic.Int64
			var callers sync.WaitGroup
			for i, r := range replicas {
				r.buyer.SetBudget(c.overall)
				r.provider.submit = func(context.Context) (string, error) {
					return fmt.Sprint("t", bought.Add(1)), nil
				}
				for j := range 6 {
					callers.Go(func() {
						for k := range 4 {
							g := guest(c.guests)
							g.Identity.Sitekey = fmt.Sprint(i, j, k)
							g.ID = g.Identity.ID()
							slot, err := r.buyer.Admit(t.Context(), Bid{})
							if err != nil {
								t.Error(err)
								return
							}
							_ = r.buyer.Buy(t.Context(), slot, g, func(Result) {})
						}
					})
				}
			}
			callers.Wait()
			for _, r := range replicas {
				if err := r.buyer.Wait(); err != nil {
					t.Error(err)
				}
			}
			n := int(bought.Load())
			if n == 0 || n > c.most {
				t.Errorf("%d bought with a budget of %d", n, c.most)
			}
			for _, of := range []pool.Budget{pool.Overall, pool.OfGuests} {
				booked := first.stock.bookedOf(of)
				if len(booked) < n {
					t.Errorf("%d bought, %d in the budget %s", n, len(booked), of)
				}
				for _, order := range first.stock.soldOrders() {
					if !slices.Contains(booked, order) {
						t.Errorf("%s was bought and is not in the budget %s", order, of)
					}
				}
			}
		})
	}
}

// soldOrders returns the orders whose tokens landed.
func (w *testRedis) soldOrders() (sold []string) {
	for _, l := range w.landed() {
		sold = append(sold, l.String())
	}
	return sold
}
