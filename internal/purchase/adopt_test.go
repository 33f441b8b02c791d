package purchase

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/redisdb"
)

// found is an order of a replica that is gone: it was marked 2 s after it was
// placed and got as far as state, with the task "t7".
func (s *testBuyer) found(t *testing.T, state pool.State) *Order {
	t.Helper()
	return s.foundFor(t, spec(), state)
}

func (s *testBuyer) foundFor(t *testing.T, target Spec, state pool.State) *Order {
	t.Helper()
	o := s.orderFor(t, target)
	store, ctx := s.stock.Store, t.Context()
	must := func(ok bool, err error) {
		t.Helper()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	time.Sleep(2 * time.Second)
	if state != pool.Intent {
		must(store.Mark(ctx, o.Ref))
	}
	switch state {
	case pool.Bought:
		must(store.Submitted(ctx, o.Ref, "t7"))
	case pool.Unknown:
		must(store.Unknown(ctx, o.Ref, o.timeout))
	case pool.Intent, pool.Submitting:
	}
	must(true, store.LetGo(ctx, []pool.Ref{o.Ref}))
	return o
}

// adopt must adopt without an error.
func (s *testBuyer) adopt(t *testing.T) []*Order {
	t.Helper()
	adopted, err := s.buyer.recovery.adopt(t.Context())
	if err != nil {
		t.Errorf("adopt = %v", err)
	}
	return adopted
}

// What was never submitted is taken back, with all that was reserved for it.
func TestAdoptTakesAnIntentBack(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		s.found(t, pool.Intent)
		heir := s.replica("no letters")
		if got := heir.adopt(t); len(got) != 0 {
			t.Errorf("%d orders to be collected", len(got))
		}
		// It does not know that the order was for no guest.
		s.want(t, "fail bought=false", "refund", "refund of solve", "release")
		heir.wantLeft(t, 0, 0, 0)
		if len(s.stock.booked()) != 0 {
			t.Error("the budget was not given back")
		}
	})
}

// What may have been submitted counts as bought and is never submitted again.
func TestAdoptNotesASubmittingOrderAsUnknown(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		o := s.found(t, pool.Submitting)
		heir := s.replica("no letters")
		for range 3 {
			if got := heir.adopt(t); len(got) != 0 {
				t.Errorf("%d orders to be collected", len(got))
			}
			s.stock.endLease(o.Ref)
			time.Sleep(pool.Lease)
		}
		s.want(t, "unknown", "reserve") // the place is kept no longer than the order
		if r := s.stock.record(o.Ref); r.State != pool.Unknown || len(s.stock.booked()) != 1 {
			t.Errorf("state %c, %q booked", r.State, s.stock.booked())
		}
		heir.wantLeft(t, 1, 1, 0)
	})
}

// What was bought is collected with its task, on the terms that it was placed with.
func TestAdoptedOrderIsCollected(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		target := spec()
		target.Identity.Enterprise, target.Lifetime = true, 90*time.Second
		target.ID = target.Identity.ID()
		o := s.foundFor(t, target, pool.Bought)
		time.Sleep(8 * time.Second)
		heir := s.replica("no letters")
		var asked []time.Duration
		solved := notReady(3)
		heir.provider.poll = func(ctx context.Context, n int) (provider.Solution, error) {
			asked = append(asked, time.Since(o.placed))
			return solved(ctx, n)
		}
		s.forget()
		got := heir.adopt(t)
		if len(got) != 1 || got[0].Ref != o.Ref || got[0].spec.Target != "login" || heir.buyer.slots()[0] != 1 {
			t.Fatalf("adopted %+v, %v slots", got, heir.buyer.slots())
		}
		if again := heir.adopt(t); len(again) != 0 {
			t.Errorf("adopted twice: %+v", again)
		}
		if r := heir.buyer.orders.collect(t.Context(), got[0]); r.Err != nil {
			t.Error(r.Err)
		}
		s.want(t, "poll t7", "poll t7", "poll t7", "settle", "release", "login at one: solved")
		// The first wait counts from the submit, as if nothing had happened.
		if asked[0] != 17*time.Second {
			t.Errorf("first poll %v after the placing, want 17s", asked[0])
		}
		if id := heir.provider.polled; id.Type != captcha.RecaptchaV2 || !id.Enterprise {
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
			withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
				s.found(t, pool.Bought)
				time.Sleep(age - 2*time.Second)
				heir := s.replica("no letters")
				if !solves {
					heir.provider.poll = notReady(1000)
				}
				got := heir.adopt(t)
				if len(got) != 1 {
					t.Fatalf("adopted %d orders", len(got))
				}
				began := time.Now()
				r := heir.buyer.orders.collect(t.Context(), got[0])
				if solves {
					if l := s.stock.landed(); r.Err != nil || len(l) != 1 || l[0].SincePlaced != 2*time.Second || time.Since(began) != 0 {
						t.Errorf("collect = %v after %v, landed %+v", r.Err, time.Since(began), l)
					}
				} else if left := max(0, s.provider.limit+2*time.Second-age); r.Outcome != Failed || time.Since(began) != left || heir.provider.polls < 1 {
					t.Errorf("collect = %v after %v and %d polls, want Failed after %v", r.Err, time.Since(began), heir.provider.polls, left)
				}
				heir.wantLeft(t, 0, 0, 0)
			})
		}
	}
}

// Orders of unknown fate, of replicas that live and of this buyer stay where they are.
func TestAdoptLeavesOthersAlone(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		s.found(t, pool.Unknown)
		s.renew(t, s.found(t, pool.Bought).Ref)
		own := s.order(t)
		ended := s.collecting(t, own)
		// As after a while in which Redis took no renewal.
		s.stock.endLease(own.Ref)
		before := s.stock.picture()
		s.forget()
		if got := s.adopt(t); len(got) != 0 {
			t.Errorf("adopted %d orders", len(got))
		}
		s.want(t)
		if after := s.stock.picture(); after != before {
			t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
		}
		if r := <-ended; r.Err != nil {
			t.Error(r.Err)
		}
	})
}

// What another version wrote blocks no other order, and is said.
func TestAdoptSkipsWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newTestBuyer(t, 9)
		strange := s.found(t, pool.Bought)
		s.stock.refact(strange.Ref, `{"target":["?"]}`)
		other := s.found(t, pool.Bought)
		heir := s.replica("no letters")
		heir.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		got := heir.adopt(t)
		if len(got) != 1 || got[0].Ref != other.Ref || heir.buyer.slots()[0] != 1 {
			t.Errorf("adopted %+v, %v slots", got, heir.buyer.slots())
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
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 9)
			s.found(t, pool.Bought)
			s.reserve(t, "two", pool.Ref{Order: "second", Identity: spec().ID})
			heir := s.replica("no letters")
			heir.buyer.SetProviders([]Entry{{Provider: heir.provider, Concurrency: 1}, {Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
			looks := 0
			s.stock.fault = func(string) error {
				if looks++; looks > c.looks {
					return redisdb.ErrDown
				}
				return nil
			}
			got, err := heir.buyer.recovery.adopt(t.Context())
			if !errors.Is(err, redisdb.ErrDown) || len(got) != c.adopted || heir.buyer.slots()[0] != c.adopted {
				t.Errorf("adopt = %d orders, %v, %v slots; want %d and ErrDown", len(got), err, heir.buyer.slots(), c.adopted)
			}
		})
	}
}

// Adopted orders take slots of their account, also beyond its concurrency, and
// give them back however they end.
func TestAdoptedOrdersCountAtTheirProvider(t *testing.T) {
	withBuyer(t, 3, func(t *testing.T, s *testBuyer) {
		for range 3 {
			s.found(t, pool.Bought)
		}
		heir := s.replica("no letters")
		heir.buyer.SetProviders([]Entry{{Provider: heir.provider, Concurrency: 2}})
		got := heir.adopt(t)
		if len(got) != 3 || heir.buyer.slots()[0] != 3 {
			t.Fatalf("adopted %d, %v slots", len(got), heir.buyer.slots())
		}
		s.forget()
		heir.buyer.recovery.abandon(t.Context(), got[0])
		s.want(t, "let go")
		if left, other := s.stock.lease(got[0].Ref), s.stock.lease(got[1].Ref); left > 0 || other <= 0 || heir.buyer.slots()[0] != 2 {
			t.Errorf("leases of %v and %v, %v slots", left, other, heir.buyer.slots())
		}
		s.forget()
		ctx, stop := context.WithCancel(t.Context())
		heir.provider.poll = func(context.Context, int) (provider.Solution, error) {
			stop()
			return provider.Solution{}, provider.ErrNotReady
		}
		if r := heir.buyer.orders.collect(ctx, got[1]); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", r.Err)
		}
		s.want(t, "poll t7", "let go")
		if left := s.stock.lease(got[1].Ref); left > 0 || heir.buyer.slots()[0] != 1 {
			t.Errorf("a lease of %v, %v slots", left, heir.buyer.slots())
		}
		if _, _, took := mustAdmit(t, heir.buyer); took != 0 {
			t.Errorf("admitted after %v, want at once", took)
		}
	})
}

// A place whose order ended while its replica died is given up, but not while
// its order may be about to come.
func TestOrphanedPlaces(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		orphan, late := pool.Ref{Order: "orphan", Identity: spec().ID}, pool.Ref{Order: "late", Identity: spec().ID}
		s.reserve(t, "one", orphan)
		s.reserve(t, "one", late)
		time.Sleep(time.Hour) // nobody has seen them yet
		foreign := s.found(t, pool.Bought)
		want := func(places ...pool.Ref) {
			t.Helper()
			s.renew(t, foreign.Ref)
			s.adopt(t)
			if got := s.stock.placesAt("one"); len(got) != len(places) {
				t.Errorf("places %q, want %v", got, places)
			}
			for _, ref := range places {
				if !s.stock.holdsPlace("one", ref) {
					t.Errorf("the place of %s was given up", ref.Order)
				}
			}
		}
		want(foreign.Ref, orphan, late)
		time.Sleep(orphanedFor - time.Millisecond)
		if p, err := s.stock.other().Place(t.Context(), pool.Order{Ref: late, Depth: 9, TTL: time.Minute}); err != nil || !p.Placed {
			t.Fatal(p, err)
		}
		want(foreign.Ref, orphan, late)
		time.Sleep(time.Millisecond)
		s.stock.forgetOrder(late) // counts anew
		want(foreign.Ref, late)
		time.Sleep(orphanedFor - time.Millisecond)
		want(foreign.Ref, late)
		time.Sleep(time.Millisecond)
		want(foreign.Ref)
		want(foreign.Ref)
		if n := len(s.buyer.recovery.orphans); n != 0 {
			t.Errorf("%d orphans are still remembered", n)
		}
	})
}

// Each provider's places without orders are given up, also where several have some.
func TestOrphansAtTwoProviders(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 1}, {Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		for _, name := range []string{"one", "two"} {
			s.reserve(t, name, pool.Ref{Order: "orphan" + name, Identity: spec().ID})
		}
		s.adopt(t)
		time.Sleep(14999 * time.Millisecond)
		s.adopt(t)
		s.wantLeft(t, 0, 2, 0)
		time.Sleep(time.Millisecond)
		s.adopt(t)
		s.wantLeft(t, 0, 0, 0)
	})
}

// A Redis that does not answer for three identities is not asked for the others.
func TestAdoptionGivesUp(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		for n := range 5 {
			target := spec()
			target.Identity.Sitekey = string(rune('a' + n))
			target.ID = target.Identity.ID()
			s.foundFor(t, target, pool.Bought)
		}
		asked := 0
		s.stock.fault = func(step string) error {
			if step == "look adopt" {
				asked++
				return redisdb.ErrDown
			}
			return nil
		}
		if got, err := s.replica("no letters").buyer.recovery.adopt(t.Context()); len(got) != 0 || !errors.Is(err, redisdb.ErrDown) || asked != 3 {
			t.Errorf("adopted %d orders, %v, after %d questions", len(got), err, asked)
		}
	})
}

// An adopted order waits for its callback as long as the adopter's file says, and a
// callback that cannot be stored is kept for the life of its token.
func TestAnAdoptedOrderWaitsForItsCallback(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.found(t, pool.Bought)
		heir := s.replica(t.TempDir())
		heir.reload(calling("first"))
		var asked time.Duration
		heir.provider.poll = func(context.Context, int) (provider.Solution, error) {
			asked = time.Since(o.placed)
			return provider.Solution{Token: "03AFexample"}, nil
		}
		got := heir.adopt(t)
		heir.stock.away("look find")
		heir.mustCall(t, callbackTo(o.address(), "id=t7&code=03AFcallback"))
		if shown, err := heir.buyer.DeadLetters(); err != nil || len(shown) != 1 || shown[0].Until.Sub(shown[0].Arrived) != 120*time.Second {
			t.Errorf("letters %+v, %v", shown, err)
		}
		if r := heir.buyer.orders.collect(t.Context(), got[0]); r.Err != nil {
			t.Error(r.Err)
		}
		// Half the usable life of 80 s after the submit, which was 2 s after the placing.
		if asked != 42*time.Second {
			t.Errorf("polled %v after the placing", asked)
		}
	})
}

// An order of unknown fate that comes with an adoption is left alone.
func TestAnUnknownOrderIsNeverSubmittedAgain(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.found(t, pool.Unknown)
		before := s.stock.owner(o.Ref)
		s.stock.endLease(o.Ref)
		heir := s.replica("no letters")
		s.forget()
		if got := heir.adopt(t); len(got) != 0 {
			t.Errorf("adopted %+v", got)
		}
		s.want(t)
		if owner := s.stock.owner(o.Ref); owner == before {
			t.Error("the script did not hand it over, so nothing was tested")
		}
	})
}

// An adopted order that a callback ended is not lost, also where callbacks were
// switched off meanwhile.
func TestAnAdoptedOrderKnowsThatItIsCalledBack(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.found(t, pool.Bought)
		heir := s.replica("no letters") // callbacks are off by now, but the order has its address
		got := heir.adopt(t)
		s.mustCall(t, callbackTo(o.address(), "code=03AF")) // at another replica
		s.forget()
		r := heir.buyer.orders.collect(t.Context(), got[0])
		if r.Outcome != Elsewhere || slices.Contains(s.all(), "login at one: lost") {
			t.Errorf("collect = %v, %q", r.Err, s.all())
		}
	})
}

// The adopter's file has a shorter time-out than the order was placed with.
func TestAnAdoptedOrderKeepsItsTimeout(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.found(t, pool.Bought)
		heir := s.replica("no letters")
		heir.provider.limit = 20 * time.Second
		heir.provider.poll = notReady(6)
		if r := heir.buyer.orders.collect(t.Context(), heir.adopt(t)[0]); r.Err != nil {
			t.Errorf("collect = %v", r.Err)
		}
	})
}

// Redis does not answer for one identity: the orders of the others are adopted
// all the same, at every provider.
func TestOneBadIdentityDoesNotStopAdoption(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		target := spec()
		target.Identity.Sitekey = "other"
		target.ID = target.Identity.ID()
		first, second := s.found(t, pool.Bought), s.foundFor(t, target, pool.Bought)
		heir := s.replica("no letters")
		heir.buyer.stock = halfStock{heir.stock, first.Identity}
		got, err := heir.buyer.recovery.adopt(t.Context())
		if !errors.Is(err, redisdb.ErrDown) || len(got) != 1 || got[0].Ref != second.Ref {
			t.Errorf("adopted %d orders, %v", len(got), err)
		}
	})
}

// halfStock does not answer for one identity.
type halfStock struct {
	*stock
	bad captcha.ID
}

func (s halfStock) Adopt(ctx context.Context, id captcha.ID, orders []string) ([]pool.Record, []pool.Ref, error) {
	if id == s.bad {
		return nil, nil, redisdb.ErrDown
	}
	return s.stock.Adopt(ctx, id, orders)
}
