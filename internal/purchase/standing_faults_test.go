package purchase

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/provider"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// withLog is like withBuyer, with access to the log.
func withLog(t *testing.T, test func(t *testing.T, s *testBuyer, log *testkit.Log)) {
	t.Helper()
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		var log testkit.Log
		s.buyer.log = log.Logger()
		test(t, s, &log)
	})
}

// If an attempt to share a fault with the other replicas fails, the next exchange tries again.
func TestAFaultIsSharedAfterAnError(t *testing.T) {
	withLog(t, func(t *testing.T, s *testBuyer, log *testkit.Log) {
		fault := bannedFault()
		s.provider.Adopt(t.Context(), &fault)
		end := s.stock.redis.RefuseFrom(0)
		s.buyer.accounts.exchange(t.Context())
		if refused := end(); len(refused) == 0 || log.Count("level=DEBUG", "fault is not shared with other replicas", "provider=one", "NOPERM") != 1 {
			t.Errorf("%v were refused:\n%s", refused, log)
		}
		if standing := s.standing(t); standing.Fault != nil {
			t.Errorf("shared: %+v", standing.Fault)
		}
		s.buyer.accounts.exchange(t.Context())
		if standing := s.standing(t); standing.Fault == nil || standing.Fault.Code != fault.Code || s.provider.Fault() == nil {
			t.Errorf("after the next exchange: %+v", standing)
		}
	})
}

// After a failed probe, Probe returns the provider's state and no error. The failed probe does not
// delay or hasten the next order. Without Redis, Probe returns an error.
func TestAFailedProbeReturnsTheState(t *testing.T) {
	withLog(t, func(t *testing.T, s *testBuyer, log *testkit.Log) {
		fault := bannedFault()
		s.provider.Adopt(t.Context(), &fault)
		s.provider.setState(provider.StateDown, time.Minute)
		s.provider.change(func() { s.provider.probe = errors.New("still banned") })
		got, err := s.buyer.Probe(t.Context(), "one")
		if err != nil || got.Name != "one" || got.State.Kind != provider.StateDown {
			t.Errorf("%+v, %v", got, err)
		}
		if log.Count("level=INFO", "a probe of the provider failed", "provider=one", "still banned") != 1 {
			t.Errorf("the log has %s", log)
		}
		if standing := s.standing(t); standing.Fault == nil || standing.Fault.Next != time.Minute {
			t.Errorf("shared: %+v", standing.Fault)
		}
		s.provider.change(func() { s.provider.probe = nil })
		end := s.stock.redis.RefuseFrom(0)
		if got, err := s.buyer.Probe(t.Context(), "one"); !errors.Is(err, redisdb.ErrDown) || got.Name != "one" {
			t.Errorf("without Redis: %+v, %v", got, err)
		}
		end()
		if standing := s.standing(t); standing.Fault == nil || standing.Fault.Next != time.Minute {
			t.Errorf("without Redis, shared: %+v", standing.Fault)
		}
		if _, err := s.buyer.Probe(context.WithoutCancel(t.Context()), "one"); err != nil || s.standing(t).Fault.Next > 0 {
			t.Errorf("with Redis: %v, %+v", err, s.standing(t).Fault)
		}
	})
}
