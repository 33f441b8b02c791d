package purchase

import (
	"context"
	"strings"
	"testing"
	"time"

	"poold/internal/provider"
)

// partOfStock cannot tell the orders at any provider.
type partOfStock struct{ Orders }

func (partOfStock) InFlight(_ context.Context, providers []string) ([]int, error) {
	counts := make([]int, len(providers))
	for i := range counts {
		counts[i] = -1
	}
	return counts, nil
}

// The places at a provider are in one part of Redis. While that is away nothing is
// bought there, and the provider's state says why.
func TestAProvidersPlacesAreAway(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		s.buyer.stock = partOfStock{s.buyer.stock}
		got := s.buyer.Providers(t.Context(), time.Now())[0]
		if got.State.Kind != provider.StateDown || !strings.Contains(got.State.Reason, "redis node") || got.InFlight != 0 {
			t.Errorf("%+v", got)
		}
	})
}
