package purchase

import (
	"errors"
	"testing"
)

// A reload can replace the simulated provider while an order waits for its slot. If the order's
// target buys only simulated tokens, the order is then refused before anything is reserved.
func TestBuyRefusesARealProvider(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		only := spec()
		only.SimulatedOnly = true
		if _, err := s.buy(t, only); !errors.Is(err, ErrReal) {
			t.Errorf("buy = %v", err)
		}
		if s.buyer.slots()[0] != 0 || s.stock.tokens() != 0 {
			t.Errorf("%v slots are taken, %d tokens", s.buyer.slots(), s.stock.tokens())
		}
		for _, a := range s.buyer.accounts.listed {
			a.simulated = true
		}
		ended, err := s.buy(t, only)
		if err != nil {
			t.Fatal(err)
		}
		if r := <-ended; r.Outcome != Solved {
			t.Errorf("%+v", r)
		}
	})
}
