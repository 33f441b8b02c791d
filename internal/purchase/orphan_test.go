package purchase

import (
	"testing"
	"time"

	"poold/internal/pool"
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
