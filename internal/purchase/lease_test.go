package purchase

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/redisdb"
)

// renewals records the times at which leases were renewed.
type renewals struct {
	*stock
	began time.Time
	seen  map[pool.Ref][]time.Duration
	left  map[pool.Ref][]time.Duration // remaining time of each lease in Redis, before each of its renewals
}

func (r *renewals) Renew(ctx context.Context, orders []pool.Ref) ([]pool.Ref, error) {
	r.change(func() {
		for _, ref := range orders {
			r.seen[ref] = append(r.seen[ref], time.Since(r.began))
			r.left[ref] = append(r.left[ref], r.lease(ref))
		}
	})
	return r.stock.Renew(ctx, orders)
}

// Each order in flight keeps its lease until its end, even during its submit.
func TestLeasesAreRenewed(t *testing.T) {
	withBuyer(t, 2, func(t *testing.T, s *testBuyer) {
		r := &renewals{stock: s.stock, began: time.Now(), seen: map[pool.Ref][]time.Duration{}, left: map[pool.Ref][]time.Duration{}}
		s.buyer.stock = r
		stop := s.startRunning(t)
		s.provider.poll = notReady(2)
		waits := s.order(t)
		first := s.startCollecting(t, waits)
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(10 * time.Second)
			return "t2", nil
		}
		submits := s.order(t)
		second := s.startCollecting(t, submits)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		every := []time.Duration{renewEvery, 2 * renewEvery, 3 * renewEvery, 4 * renewEvery, 5 * renewEvery, 6 * renewEvery}
		r.change(func() {
			for what, o := range map[string]*Order{"waiting": waits, "submitting": submits} {
				if got := r.seen[o.Ref]; !slices.Equal(got, every) {
					t.Errorf("%s: renewed after %v, want %v", what, got, every)
				}
				// A renewal, a placement and a mark each set the lease to 5 s.
				if got := r.left[o.Ref]; slices.ContainsFunc(got, func(left time.Duration) bool { return left != 3500*time.Millisecond }) {
					t.Errorf("%s: what was left of its leases: %v", what, got)
				}
			}
		})
		if err := errors.Join((<-first).Err, (<-second).Err); err != nil {
			t.Error(err)
		}
		r.change(func() { clear(r.seen) })
		time.Sleep(time.Minute)
		stop()
		if len(r.seen) != 0 {
			t.Errorf("renewed after the end: %v", r.seen)
		}
	})
}

// If another replica adopts an order, this replica frees the slot. It neither polls nor settles nor
// reports the order.
func TestAStolenOrderEndsElsewhere(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		stop := s.startRunning(t)
		s.provider.poll = notReady(1000)
		o := s.order(t)
		ended := s.startCollecting(t, o)
		time.Sleep(30*time.Second + 100*time.Millisecond)
		synctest.Wait()
		s.forget()
		s.stock.steal(t.Context(), o.Ref)
		began := time.Now()
		if r := <-ended; r.Outcome != Elsewhere {
			t.Errorf("collect = %v, want Elsewhere", r.Err)
		}
		if took := time.Since(began); took > renewEvery {
			t.Errorf("noticed after %v, want one renewal's time", took)
		}
		time.Sleep(time.Minute)
		if got := s.all(); len(got) > 1 || slices.ContainsFunc(got, func(e string) bool { return e != "poll t1" }) {
			t.Errorf("it was not left alone: %q", got)
		}
		s.wantLeft(t, 1, 1, 0)
		stop()
	})
}

// If another replica adopts an order, this replica does not settle the order even if it already has
// the token.
func TestAnOrderOfAnotherReplicaIsNotSettled(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
			s.stock.steal(ctx, o.Ref)
			return provider.Solution{Token: "03AFexample"}, nil
		}
		if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Elsewhere {
			t.Errorf("collect = %v, want Elsewhere", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "poll t1", "settle")
		if s.stock.tokens() != 0 {
			t.Error("a token landed")
		}
		s.wantLeft(t, 1, 1, 0)
	})
}

// An order that another replica has adopted is not submitted here.
func TestNoSubmitWithoutTheLease(t *testing.T) {
	for name, lose := range map[string]func(w *testRedis, ref pool.Ref){
		"another's": func(w *testRedis, ref pool.Ref) { w.steal(w.t.Context(), ref) },
		"gone":      (*testRedis).forgetOrder,
	} {
		withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
			o := s.order(t)
			lose(s.stock.testRedis, o.Ref)
			if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Elsewhere {
				t.Errorf("%s: collect = %v, want Elsewhere", name, r.Err)
			}
			s.want(t, "mark")
			if s.buyer.slots()[0] != 0 {
				t.Errorf("%s: the slot was not freed", name)
			}
		})
	}
}

// The process may be suspended between the mark and the submit. A mark that took half the time of a
// lease or longer is therefore repeated.
func TestASlowMarkIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		took   time.Duration
		stolen bool
		want   []string
		end    Outcome
	}{
		"fast enough": {pool.Lease/2 - time.Millisecond, false, []string{"mark", "submit"}, Solved},
		"too slow":    {pool.Lease / 2, false, []string{"mark", "mark", "submit"}, Solved},
		"stolen":      {pool.Lease / 2, true, []string{"mark", "mark"}, Elsewhere},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			o := s.order(t)
			marks := 0
			s.stock.lostReply = func(step string) error {
				if step == "mark" {
					if marks++; marks == 1 {
						time.Sleep(c.took)
						if c.stolen {
							s.stock.steal(t.Context(), o.Ref)
						}
					}
				}
				return nil
			}
			if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != c.end {
				t.Errorf("collect = %+v, want %v", r, c.end)
			}
			if got := s.all(); !slices.Equal(got[:min(len(got), len(c.want))], c.want) || c.stolen && len(got) != len(c.want) {
				t.Errorf("what happened: %q, want %q first", got, c.want)
			}
		})
	}
}

// If a service answers a submit with the task of another order, no token is delivered twice.
func TestASubmitAnsweredWithAnotherOrdersTaskIsLost(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.stock.claimElsewhere("t1")
		o := s.order(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Lost {
			t.Errorf("collect = %v, want Lost", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "unknown", "reserve", "login at one: lost")
		if r := s.stock.record(o.Ref); r.State != pool.Unknown || r.Task != "" {
			t.Errorf("the order is in state %c with task %q", r.State, r.Task)
		}
		s.wantLeft(t, 1, 1, 0)
	})
}

// A callback may arrive at another replica before this replica's poll, or before its submit ends.
// The token lands once, whether or not the message about the callback has reached this replica.
func TestACallbackElsewherePrecedesThePoll(t *testing.T) {
	unanswered := &provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}
	for name, c := range map[string]struct {
		submit error
		told   bool
		want   Outcome
		steps  []string
	}{
		"told before the poll's answer":    {nil, true, Solved, []string{"mark", "submit", "claim t1", "store t1", "poll t1", "settle", "release"}},
		"not told yet":                     {nil, false, Elsewhere, []string{"mark", "submit", "claim t1", "store t1", "poll t1", "settle", "release"}},
		"told while the submit was lost":   {unanswered, true, Solved, []string{"mark", "submit", "unknown", "release"}},
		"not told, and the submit is lost": {unanswered, false, Elsewhere, []string{"mark", "submit", "unknown", "release"}},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			o := s.order(t)
			elsewhere := func(ctx context.Context) {
				s.stock.landElsewhere(ctx, o.Ref)
				if c.told {
					s.buyer.Ended(o.Ref, pool.Solved)
				}
			}
			s.provider.submit = func(ctx context.Context) (string, error) {
				if c.submit != nil {
					elsewhere(ctx)
				}
				return "t1", c.submit
			}
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				elsewhere(ctx)
				return provider.Solution{Token: "03AFexample"}, nil
			}
			if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != c.want {
				t.Errorf("collect = %+v, want %v", r, c.want)
			}
			s.want(t, c.steps...)
			if s.stock.tokens() != 1 || len(s.stock.landed()) != 0 || s.buyer.slots()[0] != 0 {
				t.Errorf("%d tokens, %v slots", s.stock.tokens(), s.buyer.slots())
			}
		})
	}
}

// If another replica has adopted an order, the order keeps its permit and its reservations,
// whatever end this replica finds.
func TestReservationsOfAnAdoptedOrderStay(t *testing.T) {
	fault := func(c provider.Class) error { return &provider.Error{Class: c, Code: "CODE"} }
	for name, c := range map[string]struct {
		want    Outcome
		why     error
		prepare func(s *testBuyer, o *Order, stop context.CancelFunc)
	}{
		"a stop before the submit": {Interrupted, context.Canceled, func(s *testBuyer, o *Order, stop context.CancelFunc) {
			s.stock.steal(s.stock.t.Context(), o.Ref)
			stop()
		}},
		"a mark without an answer": {Interrupted, redisdb.ErrDown, func(s *testBuyer, o *Order, _ context.CancelFunc) {
			s.stock.steal(s.stock.t.Context(), o.Ref)
			s.stock.lostReply = loseAnswer("mark", redisdb.ErrDown)
		}},
		"a submit that was refused": {Busy, nil, func(s *testBuyer, o *Order, _ context.CancelFunc) {
			s.provider.submit = func(ctx context.Context) (string, error) {
				s.stock.steal(ctx, o.Ref)
				return "", fault(provider.Capacity)
			}
		}},
		"a submit without an answer": {Elsewhere, nil, func(s *testBuyer, o *Order, _ context.CancelFunc) {
			s.provider.submit = func(ctx context.Context) (string, error) {
				s.stock.steal(ctx, o.Ref)
				return "", context.DeadlineExceeded
			}
		}},
		"a task that failed": {Elsewhere, nil, func(s *testBuyer, o *Order, _ context.CancelFunc) {
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				s.stock.steal(ctx, o.Ref)
				return provider.Solution{}, fault(provider.Task)
			}
		}},
		"a token at a stop": {Elsewhere, nil, func(s *testBuyer, o *Order, stop context.CancelFunc) {
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				s.stock.steal(ctx, o.Ref)
				stop()
				return provider.Solution{Token: "03AFexample"}, nil
			}
		}},
		"a token": {Elsewhere, nil, func(s *testBuyer, o *Order, _ context.CancelFunc) {
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				s.stock.steal(ctx, o.Ref)
				return provider.Solution{Token: "03AFexample"}, nil
			}
		}},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.buyer.SetBudget(5)
			o := s.order(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			mine := s.stock.owner(o.Ref)
			c.prepare(s, o, stop)
			if r := s.buyer.orders.collect(ctx, o); r.Outcome != c.want || c.why != nil && !errors.Is(r.Err, c.why) {
				t.Errorf("collect = %+v, want %v", r, c.want)
			}
			if r := s.stock.record(o.Ref); r.State == pool.Unknown || s.stock.owner(o.Ref) == mine {
				t.Errorf("it is in state %c, and this replica's again: %v", r.State, s.stock.owner(o.Ref) == mine)
			}
			for range 3 {
				s.buyer.placer.removeLeftovers(t.Context())
			}
			s.wantLeft(t, 1, 1, 0)
			if !s.stock.isBooked(o.Ref) || s.stock.tokens()+s.stock.failures() != 0 {
				t.Errorf("booked %v, %d tokens, %d failed", s.stock.isBooked(o.Ref), s.stock.tokens(), s.stock.failures())
			}
		})
	}
}

// A repeated mark does not make the token younger, because the task may have been solved right
// after the first mark.
func TestARepeatedMarkMakesNoTokenYounger(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		time.Sleep(time.Second)
		marks := 0
		s.stock.lostReply = func(step string) error {
			if step == "mark" {
				if marks++; marks == 1 {
					time.Sleep(2600 * time.Millisecond) // more than half the time of a lease
				}
			}
			return nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 9*time.Second)
		defer stop()
		if r := s.buyer.orders.collect(ctx, o); !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("collect = %v", r.Err)
		}
		if r := s.stock.record(o.Ref); marks != 2 || r.Unsolved != time.Second {
			t.Errorf("after %d marks unsolved %v after the placing, want 1s", marks, r.Unsolved)
		}
	})
}
