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
)

// renewals writes down which leases were renewed when.
type renewals struct {
	*stock
	began time.Time
	seen  map[pool.Ref][]time.Duration
}

func (r *renewals) Renew(ctx context.Context, orders []pool.Ref) ([]pool.Ref, error) {
	r.change(func() {
		for _, ref := range orders {
			r.seen[ref] = append(r.seen[ref], time.Since(r.began))
		}
	})
	return r.stock.Renew(ctx, orders)
}

// Every order that is worked on keeps its lease, also while its submit is on
// its way, and no longer than that.
func TestLeasesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(2)
		r := &renewals{stock: s.stock, began: time.Now(), seen: map[pool.Ref][]time.Duration{}}
		s.desk.stock = r
		stop := s.running(t)
		s.seat.poll = notReady(2)
		waits := s.order(t)
		first := s.collecting(t, waits)
		s.seat.submit = func(context.Context) (string, error) {
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
			}
		})
		if err := errors.Join(<-first, <-second); err != nil {
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
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		stop := s.running(t)
		s.seat.poll = notReady(1000)
		o := s.order(t)
		ended := s.collecting(t, o)
		time.Sleep(30*time.Second + 100*time.Millisecond)
		synctest.Wait()
		s.forget()
		s.stock.change(func() { s.stock.orders[o.Ref].stolen = true })
		began := time.Now()
		if err := <-ended; !errors.Is(err, ErrElsewhere) {
			t.Errorf("collect = %v, want ErrElsewhere", err)
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
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		o := s.order(t)
		s.seat.poll = func(context.Context, int) (provider.Solution, error) {
			s.stock.change(func() { s.stock.orders[o.Ref].stolen = true })
			return provider.Solution{Token: "03AFexample"}, nil
		}
		if err := s.desk.Collect(t.Context(), o); !errors.Is(err, ErrElsewhere) {
			t.Errorf("collect = %v, want ErrElsewhere", err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "poll t1", "settle")
		if s.stock.tokens != 0 {
			t.Error("a token landed")
		}
		s.wantLeft(t, 1, 1, 0)
	})
}

// Nothing is bought for an order that is not this replica's any more.
func TestNoSubmitWithoutTheLease(t *testing.T) {
	for name, lose := range map[string]func(s *stock, ref pool.Ref){
		"another's": func(s *stock, ref pool.Ref) { s.orders[ref].stolen = true },
		"gone":      func(s *stock, ref pool.Ref) { delete(s.orders, ref) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(1)
			o := s.order(t)
			s.stock.change(func() { lose(s.stock, o.Ref) })
			if err := s.desk.Collect(t.Context(), o); !errors.Is(err, ErrElsewhere) {
				t.Errorf("%s: collect = %v, want ErrElsewhere", name, err)
			}
			s.want(t, "mark")
			if s.desk.slots()[0] != 0 {
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
		err    error
	}{
		"fast enough": {pool.Lease/2 - time.Millisecond, false, []string{"mark", "submit"}, nil},
		"too slow":    {pool.Lease / 2, false, []string{"mark", "mark", "submit"}, nil},
		"stolen":      {pool.Lease / 2, true, []string{"mark", "mark"}, ErrElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(1)
				o := s.order(t)
				marks := 0
				s.stock.lostReply = func(step string) error {
					if step == "mark" {
						if marks++; marks == 1 {
							time.Sleep(c.took)
							s.stock.orders[o.Ref].stolen = c.stolen
						}
					}
					return nil
				}
				if err := s.desk.Collect(t.Context(), o); !errors.Is(err, c.err) {
					t.Errorf("collect = %v, want %v", err, c.err)
				}
				if got := s.all(); !slices.Equal(got[:min(len(got), len(c.want))], c.want) || c.stolen && len(got) != len(c.want) {
					t.Errorf("what happened: %q, want %q first", got, c.want)
				}
			})
		})
	}
}

// A service that answers with another order's task brings nobody a token twice.
func TestSubmitAnsweredWithAnothersTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		s.stock.claims["one/t1"] = pool.Ref{Order: "another"}
		o := s.order(t)
		if err := s.desk.Collect(t.Context(), o); !errors.Is(err, ErrLost) {
			t.Errorf("collect = %v, want ErrLost", err)
		}
		s.want(t, "mark", "submit", "claim t1", "unknown", "reserve", "login at one: lost")
		if e := s.stock.orders[o.Ref]; e.state != pool.Unknown || e.task != "" {
			t.Errorf("the order is in state %c with task %q", e.state, e.task)
		}
		s.wantLeft(t, 1, 1, 0)
	})
}

// A stop leaves a waiting order to whoever comes first.
func TestStopLetsWaitingOrdersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		o := s.order(t)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := s.desk.Collect(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("collect = %v, want ctx's error", err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "let go")
		if left := s.stock.left; len(left) != 1 || left[0] != o.Ref {
			t.Errorf("let go %v, want %v", left, o.Ref)
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
		want   error
		steps  []string
	}{
		"told before the poll's answer":    {nil, true, nil, []string{"mark", "submit", "claim t1", "store t1", "poll t1", "settle", "release"}},
		"not told yet":                     {nil, false, ErrElsewhere, []string{"mark", "submit", "claim t1", "store t1", "poll t1", "settle", "release"}},
		"told while the submit was lost":   {unanswered, true, nil, []string{"mark", "submit", "unknown", "release"}},
		"not told, and the submit is lost": {unanswered, false, ErrElsewhere, []string{"mark", "submit", "unknown", "release"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCallbackShop("no letters")
				o := s.order(t)
				elsewhere := func() {
					s.stock.change(func() { delete(s.stock.orders, o.Ref) })
					if c.told {
						s.desk.Ended(o.Ref, pool.Solved)
					}
				}
				s.seat.submit = func(context.Context) (string, error) {
					if c.submit != nil {
						elsewhere()
					}
					return "t1", c.submit
				}
				s.seat.poll = func(context.Context, int) (provider.Solution, error) {
					elsewhere()
					return provider.Solution{Token: "03AFexample"}, nil
				}
				if err := s.desk.Collect(t.Context(), o); !errors.Is(err, c.want) {
					t.Errorf("collect = %v, want %v", err, c.want)
				}
				s.want(t, c.steps...)
				if s.stock.tokens != 0 || s.desk.slots()[0] != 0 {
					t.Errorf("%d tokens, %v slots", s.stock.tokens, s.desk.slots())
				}
			})
		})
	}
}
