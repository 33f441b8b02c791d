package purchase

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// foundOrder returns an order of a dead replica in the given state. The order was placed 2 s before
// it was marked, and its task is "t7".
func (s *testBuyer) foundOrder(t *testing.T, state pool.State) *Order {
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
		must(store.MarkSubmitting(ctx, o.Ref))
	}
	switch state {
	case pool.Bought:
		must(store.Submitted(ctx, o.Ref, "t7"))
	case pool.Unknown:
		must(store.Unknown(ctx, o.Ref, o.timeout))
	case pool.Intent, pool.Submitting:
	}
	must(true, store.ReleaseLeases(ctx, []pool.Ref{o.Ref}))
	return o
}

// adopt adopts orders; after an error the test fails.
func (s *testBuyer) adopt(t *testing.T) []*Order {
	t.Helper()
	adopted, err := s.buyer.recovery.adopt(t.Context())
	if err != nil {
		t.Errorf("adopt = %v", err)
	}
	return adopted
}

// An order that was not submitted is removed, with all its reservations.
func TestAdoptRemovesAnUnsubmittedOrder(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		s.foundOrder(t, pool.Intent)
		heir := s.replica("no letters")
		if got := heir.adopt(t); len(got) != 0 {
			t.Errorf("%d orders to be collected", len(got))
		}
		// The journal does not record whether the order is for a guest.
		s.want(t, "fail bought=false", "refund", "refund of solve", "release")
		heir.wantLeft(t, 0, 0, 0)
		if len(s.stock.booked()) != 0 {
			t.Error("the budget was not given back")
		}
	})
}

// An order that may have been submitted counts as bought and is not submitted again.
func TestAdoptKeepsASubmittingOrderAsUnknown(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetBudget(5)
		o := s.foundOrder(t, pool.Submitting)
		heir := s.replica("no letters")
		for range 3 {
			if got := heir.adopt(t); len(got) != 0 {
				t.Errorf("%d orders to be collected", len(got))
			}
			s.stock.endLease(o.Ref)
			time.Sleep(pool.Lease)
		}
		s.want(t, "unknown", "reserve") // the permit expires with the order
		if r := s.stock.record(o.Ref); r.State != pool.Unknown || len(s.stock.booked()) != 1 {
			t.Errorf("state %c, %q booked", r.State, s.stock.booked())
		}
		heir.wantLeft(t, 1, 1, 0)
	})
}

// An adopted order is collected by its task id. The terms from its placement still apply.
func TestAdoptCollectsABoughtOrder(t *testing.T) {
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
		// The provider's first wait is counted from the submit.
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

// If the adopter's first poll finds the token, the token counts as solved at the submit. A task is
// polled once more even after its time-out.
func TestAdoptedTokenIsAsOldAsItsSubmit(t *testing.T) {
	for _, age := range []time.Duration{30 * time.Second, 200 * time.Second} {
		for _, solves := range []bool{true, false} {
			withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
				s.foundOrder(t, pool.Bought)
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

// A buyer does not adopt orders of unknown outcome, orders of living replicas, or its own orders.
func TestAdoptLeavesOtherOrdersAlone(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		s.foundOrder(t, pool.Unknown)
		s.renew(t, s.foundOrder(t, pool.Bought).Ref)
		own := s.order(t)
		ended := s.startCollecting(t, own)
		// The order's lease expires, as in an outage of Redis.
		s.stock.endLease(own.Ref)
		before := s.stock.dump()
		s.forget()
		if got := s.adopt(t); len(got) != 0 {
			t.Errorf("adopted %d orders", len(got))
		}
		s.want(t)
		if after := s.stock.dump(); after != before {
			t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
		}
		if r := <-ended; r.Err != nil {
			t.Error(r.Err)
		}
	})
}

// An adopted order takes a slot of its account, even beyond the concurrency. The slot becomes free
// however the order ends.
func TestAdoptedOrdersTakeSlots(t *testing.T) {
	withBuyer(t, 3, func(t *testing.T, s *testBuyer) {
		for range 3 {
			s.foundOrder(t, pool.Bought)
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

// The callback settings in the adopter's file determine how long an adopted order waits for its
// callback. A callback that Redis cannot store is kept for the token's lifetime.
func TestAnAdoptedOrderWaitsForItsCallback(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.foundOrder(t, pool.Bought)
		heir := s.replica(t.TempDir())
		heir.reload(callbackSettings("first"))
		var asked time.Duration
		heir.provider.poll = func(context.Context, int) (provider.Solution, error) {
			asked = time.Since(o.placed)
			return provider.Solution{Token: "03AFexample"}, nil
		}
		got := heir.adopt(t)
		heir.stock.failSteps("look find")
		heir.mustCall(t, callbackTo(o.address(), "id=t7&code=03AFcallback"))
		if shown, err := heir.buyer.DeadLetters(); err != nil || len(shown) != 1 || shown[0].Until.Sub(shown[0].Arrived) != 120*time.Second {
			t.Errorf("letters %+v, %v", shown, err)
		}
		if r := heir.buyer.orders.collect(t.Context(), got[0]); r.Err != nil {
			t.Error(r.Err)
		}
		// The wait is 40 s, half the usable life of 80 s. The submit was 2 s after the placement.
		if asked != 42*time.Second {
			t.Errorf("polled %v after the placing", asked)
		}
	})
}

// An adopted order keeps its time-out, although the time-out in the adopter's file is shorter.
func TestAnAdoptedOrderKeepsItsTimeout(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.foundOrder(t, pool.Bought)
		heir := s.replica("no letters")
		heir.provider.limit = 20 * time.Second
		heir.provider.poll = notReady(6)
		if r := heir.buyer.orders.collect(t.Context(), heir.adopt(t)[0]); r.Err != nil {
			t.Errorf("collect = %v", r.Err)
		}
	})
}
