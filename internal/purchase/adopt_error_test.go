package purchase

import (
	"context"
	"errors"
	"testing"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// If Redis fails during the search, Adopt still collects the orders that it has already
// adopted.
func TestAdoptReturnsOrdersBeforeAnError(t *testing.T) {
	for name, c := range map[string]struct{ looks, adopted int }{
		"at once":                   {0, 0},
		"before the first order":    {1, 0},
		"at the second provider":    {2, 1},
		"at the second's one order": {3, 1},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 9)
			s.foundOrder(t, pool.Bought)
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

// An error for one identity does not prevent the adoption of other orders, at any
// provider.
func TestAnErrorForOneIdentityDoesNotStopAdoption(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		target := spec()
		target.Identity.Sitekey = "other"
		target.ID = target.Identity.ID()
		first, second := s.foundOrder(t, pool.Bought), s.foundFor(t, target, pool.Bought)
		heir := s.replica("no letters")
		heir.buyer.stock = failingStock{heir.stock, first.Identity}
		got, err := heir.buyer.recovery.adopt(t.Context())
		if !errors.Is(err, redisdb.ErrDown) || len(got) != 1 || got[0].Ref != second.Ref {
			t.Errorf("adopted %d orders, %v", len(got), err)
		}
	})
}

// failingStock is a stock whose adoptions fail for one identity.
type failingStock struct {
	*stock
	bad captcha.ID
}

func (s failingStock) Adopt(ctx context.Context, id captcha.ID, orders []string) ([]pool.Record, []pool.Ref, error) {
	if id == s.bad {
		return nil, nil, redisdb.ErrDown
	}
	return s.stock.Adopt(ctx, id, orders)
}
