package purchase

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// found is an order of a replica that is gone: it was marked 2 s after it was
// placed and got as far as state.
func (s *shop) found(t *testing.T, state pool.State) *Order {
	t.Helper()
	o := s.order(t)
	s.stock.change(func() {
		e := s.stock.orders[o.Ref]
		e.state, e.ended, e.stolen = state, true, true
		if state != pool.Intent {
			e.marked = e.placed.Add(2 * time.Second)
		}
		if state == pool.Bought {
			e.task = "t7"
		}
	})
	return o
}

// adopt must adopt without an error.
func (s *shop) adopt(t *testing.T) []*Order {
	t.Helper()
	adopted, err := s.desk.Adopt(t.Context())
	if err != nil {
		t.Errorf("adopt = %v", err)
	}
	return adopted
}

// What was never submitted is taken back, with all that was reserved for it.
func TestAdoptTakesAnIntentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		s.desk.SetBudget(5)
		s.found(t, pool.Intent)
		heir := s.replica("no letters")
		if got := heir.adopt(t); len(got) != 0 {
			t.Errorf("%d orders to be collected", len(got))
		}
		s.want(t, "fail bought=false", "refund", "release")
		heir.wantLeft(t, 0, 0, 0)
		if len(s.stock.booked) != 0 {
			t.Error("the budget was not given back")
		}
	})
}

// What may have been submitted counts as bought and is never submitted again.
func TestAdoptNotesASubmittingOrderAsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		s.desk.SetBudget(5)
		o := s.found(t, pool.Submitting)
		heir := s.replica("no letters")
		for range 3 {
			if got := heir.adopt(t); len(got) != 0 {
				t.Errorf("%d orders to be collected", len(got))
			}
			s.stock.change(func() { s.stock.orders[o.Ref].ended = true })
			time.Sleep(pool.Lease)
		}
		s.want(t, "unknown", "reserve") // the place is kept no longer than the order
		if s.stock.orders[o.Ref].state != pool.Unknown || len(s.stock.booked) != 1 {
			t.Errorf("state %c, %d booked", s.stock.orders[o.Ref].state, len(s.stock.booked))
		}
		heir.wantLeft(t, 1, 1, 0)
	})
}

// What was bought is collected with its task, on the terms that it was placed with.
func TestAdoptedOrderIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		target := spec()
		target.Identity.Enterprise, target.Lifetime = true, 90*time.Second
		target.ID = target.Identity.ID()
		slot, _, _ := mustAdmit(t, s.desk)
		o, err := s.desk.Place(t.Context(), slot, target)
		if err != nil {
			t.Fatal(err)
		}
		s.stock.change(func() {
			e := s.stock.orders[o.Ref]
			e.state, e.task, e.ended, e.stolen = pool.Bought, "t7", true, true
			e.marked = e.placed.Add(2 * time.Second)
		})
		time.Sleep(10 * time.Second)
		heir := s.replica("no letters")
		var asked []time.Duration
		solved := notReady(3)
		heir.seat.poll = func(ctx context.Context, n int) (provider.Solution, error) {
			asked = append(asked, time.Since(o.placed))
			return solved(ctx, n)
		}
		s.forget()
		got := heir.adopt(t)
		if len(got) != 1 || got[0].Ref != o.Ref || got[0].spec.Target != "login" || heir.desk.slots()[0] != 1 {
			t.Fatalf("adopted %+v, %v slots", got, heir.desk.slots())
		}
		if again := heir.adopt(t); len(again) != 0 {
			t.Errorf("adopted twice: %+v", again)
		}
		if err := heir.desk.Collect(t.Context(), got[0]); err != nil {
			t.Error(err)
		}
		s.want(t, "poll t7", "poll t7", "poll t7", "settle", "release", "login at one: solved")
		// The first wait counts from the submit, as if nothing had happened.
		if asked[0] != 17*time.Second {
			t.Errorf("first poll %v after the placing, want 17s", asked[0])
		}
		if id := heir.seat.polled; id.Type != captcha.RecaptchaV2 || !id.Enterprise {
			t.Errorf("polled for %+v", id)
		}
		l := s.stock.landed()[0]
		if l.Lifetime != 90*time.Second || l.Task != "t7" || l.SincePlaced != asked[1] || l.Lead != asked[2]-2*time.Second {
			t.Errorf("landed %+v after polls at %v", l, asked)
		}
		heir.wantLeft(t, 0, 0, 0)
	})
}

// A token that the first poll of an adopter finds may be as old as its submit,
// but no older; one whose time-out has passed is polled once more.
func TestAdoptedTokenIsAsOldAsItsSubmit(t *testing.T) {
	for _, age := range []time.Duration{30 * time.Second, 200 * time.Second} {
		for _, solves := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(1)
				s.found(t, pool.Bought)
				time.Sleep(age)
				heir := s.replica("no letters")
				if !solves {
					heir.seat.poll = notReady(1000)
				}
				got := heir.adopt(t)
				if len(got) != 1 {
					t.Fatalf("adopted %d orders", len(got))
				}
				began := time.Now()
				err := heir.desk.Collect(t.Context(), got[0])
				if solves {
					if l := s.stock.landed(); err != nil || len(l) != 1 || l[0].SincePlaced != 2*time.Second || time.Since(began) != 0 {
						t.Errorf("collect = %v after %v, landed %+v", err, time.Since(began), l)
					}
				} else if left := max(0, s.seat.limit+2*time.Second-age); !errors.Is(err, ErrFailed) || time.Since(began) != left || heir.seat.polls < 1 {
					t.Errorf("collect = %v after %v and %d polls, want ErrFailed after %v", err, time.Since(began), heir.seat.polls, left)
				}
				heir.wantLeft(t, 0, 0, 0)
			})
		}
	}
}

// Orders of unknown fate, of replicas that live and of this desk stay where they are.
func TestAdoptLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(9)
		s.found(t, pool.Unknown)
		lives := s.found(t, pool.Bought)
		s.stock.change(func() { s.stock.orders[lives.Ref].ended = false })
		own := s.order(t)
		ended := s.collecting(t, own)
		// As after a while in which Redis took no renewal.
		s.stock.change(func() { s.stock.orders[own.Ref].ended = true })
		before := s.stock.picture()
		s.forget()
		if got := s.adopt(t); len(got) != 0 {
			t.Errorf("adopted %d orders", len(got))
		}
		s.want(t)
		if after := s.stock.picture(); after != before {
			t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What another version wrote blocks no other order, and is said.
func TestAdoptSkipsWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newShop(9)
		strange := s.found(t, pool.Bought)
		s.stock.change(func() { s.stock.orders[strange.Ref].Facts = `{"target":["?"]}` })
		other := s.found(t, pool.Bought)
		heir := s.replica("no letters")
		heir.desk.log = slog.New(slog.NewTextHandler(&logged, nil))
		got := heir.adopt(t)
		if len(got) != 1 || got[0].Ref != other.Ref || heir.desk.slots()[0] != 1 {
			t.Errorf("adopted %+v, %v slots", got, heir.desk.slots())
		}
		if n := strings.Count(logged.String(), "this version cannot read"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, logged.String())
		}
		heir.wantLeft(t, 2, 2, 1)
	})
}

// Redis that goes away ends the search; what was taken over until then is this
// replica's to collect.
func TestAdoptWhileRedisGoesAway(t *testing.T) {
	for name, c := range map[string]struct{ looks, adopted int }{
		"at once":                   {0, 0},
		"before the first order":    {1, 0},
		"at the second provider":    {2, 1},
		"at the second's one order": {3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(9)
				s.found(t, pool.Bought)
				second := pool.Ref{Order: "second", Identity: spec().ID}
				s.stock.places["two"] = map[pool.Ref]bool{second: true}
				heir := s.replica("no letters")
				heir.desk.SetProviders([]Entry{{Provider: heir.seat, Concurrency: 1}, {Provider: newSeat(s.ledger, "two"), Concurrency: 1}})
				looks := 0
				s.stock.fault = func(string) error {
					if looks++; looks > c.looks {
						return pool.ErrDown
					}
					return nil
				}
				got, err := heir.desk.Adopt(t.Context())
				if !errors.Is(err, pool.ErrDown) || len(got) != c.adopted || heir.desk.slots()[0] != c.adopted {
					t.Errorf("adopt = %d orders, %v, %v slots; want %d and ErrDown", len(got), err, heir.desk.slots(), c.adopted)
				}
			})
		})
	}
}

// Adopted orders take slots of their seller, also beyond its concurrency, and
// give them back however they end.
func TestAdoptedOrdersCountAtTheirProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(3)
		for range 3 {
			s.found(t, pool.Bought)
		}
		heir := s.replica("no letters")
		heir.desk.SetProviders([]Entry{{Provider: heir.seat, Concurrency: 2}})
		got := heir.adopt(t)
		if len(got) != 3 || heir.desk.slots()[0] != 3 {
			t.Fatalf("adopted %d, %v slots", len(got), heir.desk.slots())
		}
		s.forget()
		heir.desk.Abandon(t.Context(), got[0])
		s.want(t, "let go")
		if left := s.stock.left; len(left) != 1 || left[0] != got[0].Ref || heir.desk.slots()[0] != 2 {
			t.Errorf("let go %v, %v slots", left, heir.desk.slots())
		}
		ctx, stop := context.WithCancel(t.Context())
		heir.seat.poll = func(context.Context, int) (provider.Solution, error) {
			stop()
			return provider.Solution{}, provider.ErrNotReady
		}
		if err := heir.desk.Collect(ctx, got[1]); !errors.Is(err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", err)
		}
		if left := s.stock.left; len(left) != 2 || left[1] != got[1].Ref || heir.desk.slots()[0] != 1 {
			t.Errorf("let go %v, %v slots", left, heir.desk.slots())
		}
		if _, _, took := mustAdmit(t, heir.desk); took != 0 {
			t.Errorf("admitted after %v, want at once", took)
		}
	})
}

// A place whose order ended while its replica died is given up, but not while
// its order may be about to come.
func TestOrphanedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(9)
		orphan, late := pool.Ref{Order: "orphan", Identity: spec().ID}, pool.Ref{Order: "late", Identity: spec().ID}
		foreign := s.found(t, pool.Bought)
		s.stock.change(func() {
			s.stock.orders[foreign.Ref].ended = false
			s.stock.places["one"][orphan], s.stock.places["one"][late] = true, true
		})
		want := func(places ...pool.Ref) {
			t.Helper()
			s.adopt(t)
			if len(s.stock.places["one"]) != len(places) {
				t.Errorf("places %v, want %v", s.stock.places["one"], places)
			}
			for _, ref := range places {
				if !s.stock.places["one"][ref] {
					t.Errorf("the place of %s was given up", ref.Order)
				}
			}
		}
		time.Sleep(time.Hour) // nobody has seen them yet
		want(foreign.Ref, orphan, late)
		time.Sleep(orphanedFor - time.Millisecond)
		s.stock.change(func() { s.stock.orders[late] = &entry{state: pool.Intent} })
		want(foreign.Ref, orphan, late)
		time.Sleep(time.Millisecond)
		s.stock.change(func() { delete(s.stock.orders, late) }) // counts anew
		want(foreign.Ref, late)
		time.Sleep(orphanedFor - time.Millisecond)
		want(foreign.Ref, late)
		time.Sleep(time.Millisecond)
		want(foreign.Ref)
		want(foreign.Ref)
		if n := len(s.desk.orphans); n != 0 {
			t.Errorf("%d orphans are still remembered", n)
		}
	})
}
