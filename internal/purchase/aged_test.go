package purchase

import (
	"context"
	"testing"
	"time"

	"poold/internal/provider"
)

// A token that the service kept ready is as old as it says, older than its order.
func TestAgedTokens(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.poll = func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFexample", Dated: true, SinceSubmit: -50 * time.Second}, nil
		}
		o := s.order(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if l := s.stock.landed()[0]; l.SincePlaced != o.submitted.Sub(o.placed)-50*time.Second || l.Lead <= 0 {
			t.Errorf("%+v", l)
		}
	})
}
