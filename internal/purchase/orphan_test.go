package purchase

import (
	"errors"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

// The permit of a missing order is released, but only after the order can no longer be
// created.
func TestOrphanedPermitsAreReleased(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		orphan, late := pool.Ref{Order: "orphan", Identity: spec().ID}, pool.Ref{Order: "late", Identity: spec().ID}
		s.reserve(t, "one", orphan)
		s.reserve(t, "one", late)
		time.Sleep(time.Hour) // no search has found these permits yet
		foreign := s.foundOrder(t, pool.Bought)
		want := func(places ...pool.Ref) {
			t.Helper()
			s.renew(t, foreign.Ref)
			s.adopt(t)
			if got := s.stock.permitsAt("one"); len(got) != len(places) {
				t.Errorf("permits %q, want %v", got, places)
			}
			for _, ref := range places {
				if !s.stock.hasPermit("one", ref) {
					t.Errorf("the permit of %s was released", ref.Order)
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
		s.stock.forgetOrder(late) // the wait for this permit begins again
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

// If the release of a permit fails, the next search releases it.
func TestAnOrphanedPermitIsReleasedAfterAnError(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		orphan := pool.Ref{Order: "orphan", Identity: spec().ID}
		s.reserve(t, "one", orphan)
		s.adopt(t)
		time.Sleep(orphanedFor)
		s.stock.failSteps("look sweep")
		if got, err := s.buyer.recovery.adopt(t.Context()); len(got) != 0 || !errors.Is(err, redisdb.ErrDown) || !s.stock.hasPermit("one", orphan) {
			t.Errorf("adopt = %d orders, %v", len(got), err)
		}
		s.stock.failSteps()
		s.adopt(t)
		if s.stock.hasPermit("one", orphan) {
			t.Error("the permit is not released")
		}
	})
}

func TestOrphanedPermitsAtTwoProvidersAreReleased(t *testing.T) {
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
