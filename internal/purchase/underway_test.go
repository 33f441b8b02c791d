package purchase

import (
	"errors"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// Each replica lists the orders in flight that may have been bought, for any provider name and
// target. The list does not contain proxies. It omits orders that were not submitted and orders
// that have ended.
func TestOrdersUnderWayAreListed(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		began := time.Now().UTC().Truncate(time.Millisecond)
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 9, Price: func(captcha.Type) float64 { return 0.003 }}})
		target, other := spec(), guest(pool.Caps{PerDay: 9})
		target.Identity.Proxy, target.Identity.ProxyType = "user:secret@proxy.example.com:1", "http"
		target.ID = target.Identity.ID()
		other.Identity.Sitekey = "another"
		other.ID = other.Identity.ID()
		s.foundFor(t, target, pool.Intent)
		submitting := s.foundFor(t, target, pool.Submitting)
		bought := s.foundFor(t, other, pool.Bought)
		unknown := s.foundFor(t, target, pool.Unknown)
		ended := s.foundFor(t, target, pool.Submitting)
		if how, err := s.stock.Store.Fail(t.Context(), pool.Failure{Ref: ended.Ref, Bought: true}); err != nil || how != pool.Ended {
			t.Fatal(how, err)
		}

		elsewhere := s.replica("no letters")
		elsewhere.buyer.SetProviders(nil)
		list, err := elsewhere.buyer.OrdersInFlight(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[pool.Ref]OrderInFlight{}
		for _, u := range list {
			got[u.Order] = u
		}
		for i, want := range []struct {
			of    *Order
			state pool.State
			spec  Spec
			task  string
		}{{submitting, pool.Submitting, target, ""}, {bought, pool.Bought, other, "t7"}, {unknown, pool.Unknown, target, ""}} {
			identity := want.spec.Identity
			identity.Proxy, identity.ProxyType = "", ""
			placed := began.Add(time.Duration(i+1) * 2 * time.Second) // each placement took 2 s
			if u := got[want.of.Ref]; u != (OrderInFlight{
				Order: want.of.Ref, Identity: identity, Target: want.spec.Target, Owner: "qa@example.com", Provider: "one", Task: want.task,
				State: want.state, Price: 3_000_000, Placed: placed, Submitted: placed.Add(2 * time.Second), Age: 6*time.Second - time.Duration(i)*2*time.Second,
			}) {
				t.Errorf("of %s: %+v", want.of.Ref, u)
			}
		}
		if len(list) != 3 {
			t.Errorf("%d are under way: %+v", len(list), list)
		}
		if here, err := s.buyer.OrdersInFlight(t.Context()); err != nil || len(here) != 3 {
			t.Errorf("where the provider is listed: %+v, %v", here, err)
		}
		s.buyer.orders.register(bought)
		if mine, err := s.buyer.OwnOrdersInFlight(t.Context()); err != nil || len(mine) != 1 || mine[0].Order != bought.Ref {
			t.Errorf("those that are worked on here: %+v, %v", mine, err)
		}
		for _, step := range []string{"look places", "look find"} {
			s.stock.failSteps(step)
			if list, err := elsewhere.buyer.OrdersInFlight(t.Context()); !errors.Is(err, redisdb.ErrDown) || list != nil {
				t.Errorf("without %s: %v, %v", step, list, err)
			}
		}
		s.stock.failSteps()
		for n, more := 0, true; more; n++ {
			end := s.stock.redis.RefuseFrom(n)
			list, err := elsewhere.buyer.OwnOrdersInFlight(t.Context())
			if more = len(end()) > 0; more != errors.Is(err, redisdb.ErrDown) || !more && err != nil || len(list) > 0 {
				t.Errorf("refused from command %d on: %v, %v", n, list, err)
			}
		}
	})
}
