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

// renewals writes down which leases were renewed when.
type renewals struct {
	*stock
	began time.Time
	seen  map[pool.Ref][]time.Duration
	left  map[pool.Ref][]time.Duration // of the leases before that, in Redis
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

// Every order that is worked on keeps its lease, also while its submit is on
// its way, and no longer than that.
func TestLeasesAreRenewed(t *testing.T) {
	withBuyer(t, 2, func(t *testing.T, s *testBuyer) {
		r := &renewals{stock: s.stock, began: time.Now(), seen: map[pool.Ref][]time.Duration{}, left: map[pool.Ref][]time.Duration{}}
		s.buyer.stock = r
		stop := s.running(t)
		s.provider.poll = notReady(2)
		waits := s.order(t)
		first := s.collecting(t, waits)
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(10 * time.Second)
			return "t2", nil
		}
		submits := s.order(t)
		second := s.collecting(t, submits)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		every := []time.Duration{renewEvery, 2 * renewEvery, 3 * renewEvery, 4 * renewEvery, 5 * renewEvery, 6 * renewEvery}
		r.change(func() {
			for what, o := range map[string]*Order{"waiting": waits, "submitting": submits} {
				if got := r.seen[o.Ref]; !slices.Equal(got, every) {
					t.Errorf("%s: renewed after %v, want %v", what, got, every)
				}
				// Each renewal lasts for 5 s in Redis, as the placing and the marking do.
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

// A lease is 5 s and renewed every 1.5 s: two renewals may fail in between.
func TestLeaseLeavesRoomForTwoFailedRenewals(t *testing.T) {
	if 3*renewEvery >= pool.Lease {
		t.Errorf("renewals each %v, leases of %v", renewEvery, pool.Lease)
	}
}

// An order that is another replica's by now is left to it: no poll, nothing
// settled, nobody told, and the slot is free.
func TestStolenOrderEndsElsewhere(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		stop := s.running(t)
		s.provider.poll = notReady(1000)
		o := s.order(t)
		ended := s.collecting(t, o)
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

// Also where that is noticed no earlier than with the token in hand.
func TestStolenOrderIsNotSettled(t *testing.T) {
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

// Nothing is bought for an order that is not this replica's any more.
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

// A process may be stopped between a note in Redis and what it is for. One that
// is half a lease old is not trusted.
func TestSlowMarkIsRepeated(t *testing.T) {
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

// A service that answers with another order's task brings nobody a token twice.
func TestSubmitAnsweredWithAnothersTask(t *testing.T) {
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

// A stop leaves a waiting order to whoever comes first.
func TestStopLetsWaitingOrdersGo(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if r := s.buyer.orders.collect(ctx, o); !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("collect = %v, want ctx's error", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "let go")
		if left := s.stock.lease(o.Ref); left > 0 {
			t.Errorf("nobody may adopt it for %v", left)
		}
		s.wantLeft(t, 1, 1, 0)
	})
}

// A callback at another replica was faster than this one's poll or than the end
// of its submit: no token twice, and the news may come first or last.
func TestOrderThatACallbackEndedFirst(t *testing.T) {
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

// An order that another replica has by now keeps its place and its part of the
// budget, however it ends here.
func TestReservationsOfAnotherReplicaStay(t *testing.T) {
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
			s.stock.lostReply = lose("mark", redisdb.ErrDown)
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
				s.buyer.placer.retry(t.Context())
			}
			s.wantLeft(t, 1, 1, 0)
			if !s.stock.isBooked(o.Ref) || s.stock.tokens()+s.stock.failures() != 0 {
				t.Errorf("booked %v, %d tokens, %d failed", s.stock.isBooked(o.Ref), s.stock.tokens(), s.stock.failures())
			}
		})
	}
}

// A second note does not make the order's token younger: it may have been solved
// since the first.
func TestASecondMarkIsNoLaterSubmit(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		time.Sleep(time.Second)
		marks := 0
		s.stock.lostReply = func(step string) error {
			if step == "mark" {
				if marks++; marks == 1 {
					time.Sleep(2600 * time.Millisecond) // more than half a lease
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

// An order that was adopted while its submit was in flight is this replica's again
// with its task.
func TestATaskThatComesAfterTheLease(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		stop := s.running(t)
		o := s.order(t)
		s.provider.submit = func(ctx context.Context) (string, error) {
			s.stock.steal(ctx, o.Ref)
			if ok, err := s.stock.other().Unknown(ctx, o.Ref, time.Minute); err != nil || !ok {
				t.Error(ok, err)
			}
			time.Sleep(4 * time.Second)
			return "t1", nil
		}
		r := s.buyer.orders.collect(t.Context(), o)
		stop()
		if r.Err != nil {
			t.Errorf("collect = %v, %q", r.Err, s.all())
		}
	})
}

// What Redis keeps of an order that was placed: 5 s of lease, and a life of the
// provider's time-out and two calls of 20 s; its place outlives it by 10 s.
func TestHowLongAPlacedOrderLasts(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		r := s.stock.record(o.Ref)
		if lease := s.stock.lease(o.Ref); lease != 5*time.Second {
			t.Errorf("placed with a lease of %v", lease)
		}
		if life := time.Until(r.Until); life != 220*time.Second {
			t.Errorf("placed for %v", life)
		}
		if place := s.stock.placeFor("one", o.Ref); place != 230*time.Second {
			t.Errorf("it has its place for %v", place)
		}
		if o.deadline != r.Until {
			t.Errorf("the buyer gives up at %v, redis at %v", o.deadline, r.Until)
		}
	})
}

// Who adopts an order has it for 5 s, and renews that from then on.
func TestAnAdoptedOrderIsTheAdopters(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.found(t, pool.Bought)
		before := s.stock.owner(o.Ref)
		heir := s.replica("no letters")
		heir.provider.poll = notReady(2)
		got := heir.adopt(t)
		if owner, lease := s.stock.owner(o.Ref), s.stock.lease(o.Ref); owner == before || lease != 5*time.Second {
			t.Errorf("it is %s's, as before %v, for %v", owner, owner == before, lease)
		}
		stop := heir.running(t)
		ended := heir.collecting(t, got[0])
		time.Sleep(14 * time.Second)
		if again := s.adopt(t); len(again) != 0 || s.stock.lease(o.Ref) < 3*time.Second {
			t.Errorf("adopted by another, %d, with a lease of %v", len(again), s.stock.lease(o.Ref))
		}
		if r := <-ended; r.Err != nil {
			t.Error(r.Err)
		}
		stop()
	})
}

// An order of unknown fate stays with the replica that submitted it, and with its
// place, for as long as the service may still solve it; nobody adopts it.
func TestWhatRedisKeepsOfALostSubmit(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(10 * time.Second)
			return "", context.DeadlineExceeded
		}
		o := s.order(t)
		mine := s.stock.owner(o.Ref)
		stop := s.running(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Lost {
			t.Errorf("collect = %v, want Lost", r.Err)
		}
		stop()
		r := s.stock.record(o.Ref)
		if r.State != pool.Unknown || s.stock.owner(o.Ref) != mine {
			t.Errorf("in state %c, of this replica %v", r.State, s.stock.owner(o.Ref) == mine)
		}
		// The provider's time-out, from the end of the submit.
		if life, lease, place := time.Until(r.Until), s.stock.lease(o.Ref), s.stock.placeFor("one", o.Ref); life != 180*time.Second || lease != life || place != life {
			t.Errorf("it lives for %v, with a lease of %v and a place for %v; want 180s", life, lease, place)
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

// A task belongs to its order for as long as the order may be under way, also one
// that only its callback named.
func TestHowLongATaskIsClaimed(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
			t.Fatal(r.Err)
		}
		if ttl := s.stock.redis.TTL(testPrefix + ":task:{one}:t1"); ttl != 220*time.Second-40*time.Second { // it was polled after 40 s
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

// What a replica that died left while it submitted is kept no longer than the
// service may work on it, and its place neither.
func TestHowLongAnAdoptedSubmitLasts(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.found(t, pool.Submitting)
		time.Sleep(10 * time.Second)
		heir := s.replica("no letters")
		heir.provider.limit = time.Hour // the order's own counts
		heir.adopt(t)
		if life, place := time.Until(s.stock.record(o.Ref).Until), s.stock.placeFor("one", o.Ref); life != 180*time.Second || place != life {
			t.Errorf("it lives for %v, and has its place for %v", life, place)
		}
	})
}

// Nothing is tried beyond the time at which Redis forgets the order, neither by an
// adopter nor at a stop.
func TestTheDeadlineOfAnAdoptedOrder(t *testing.T) {
	for _, stops := range []bool{false, true} {
		withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
			o := s.found(t, pool.Bought)
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
			s.stock.away("settle")
			if r := heir.buyer.orders.collect(ctx, got[0]); r.Outcome != Lost || time.Now().After(o.deadline) {
				t.Errorf("stopped %v: collect = %v, %v after the deadline", stops, r.Err, time.Since(o.deadline))
			}
		})
	}
}
