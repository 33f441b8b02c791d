package purchase

import (
	"testing"
	"time"

	"poold/internal/provider"
)

// A replica that gave the next probe to an order which was not placed learns that polls are
// answered. It shares that, and the probe that came back stays another replica's.
func TestAnAnsweredPollDelaysNoProbe(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		as, others := s.buyer.accounts, s.stock.other()
		a := as.named("one")
		fault := provider.Fault{
			Kind: provider.FaultAccount, Code: "IP_BANNED", Action: "submit", Since: time.Now(), Next: time.Now().Add(time.Minute), Every: time.Minute,
		}
		s.provider.Adopt(t.Context(), &fault)
		as.share(t.Context(), a)
		next := func() time.Duration {
			t.Helper()
			standing, err := others.Standing(t.Context(), "one")
			if err != nil || standing.Fault == nil {
				t.Fatal(standing, err)
			}
			return standing.Fault.Next
		}
		if n := next(); n != time.Minute {
			t.Fatalf("the next probe is in %v", n)
		}
		if _, err := others.ProbeNow(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		polled := fault
		polled.Polls = true
		s.provider.Adopt(t.Context(), &polled)
		as.share(t.Context(), a)
		if n := next(); n > 0 {
			t.Errorf("after an answered poll the next probe is in %v", n)
		}
		// The fault is met again by that probe.
		again := polled
		again.Since, again.Next = time.Now().Add(time.Second), time.Now().Add(time.Minute)
		s.provider.Adopt(t.Context(), &again)
		as.share(t.Context(), a)
		if n := next(); n != time.Minute {
			t.Errorf("after the probe was refused the next one is in %v", n)
		}
	})
}
