package pool

import (
	"strconv"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// failNext places an order and ends it without a token. The result is nil unless the bound refused
// the order.
func failNext(t *testing.T, s *replica, id captcha.ID, n *int, a Attempt) *BoundedError {
	t.Helper()
	*n++
	order := Ref{id, "attempt" + strconv.Itoa(*n)}
	placing, err := s.Place(t.Context(), Order{Ref: order, Depth: 1000, TTL: time.Minute})
	if err != nil || placing.Placed == (placing.Bounded != nil) {
		t.Fatalf("placing: %+v, %v", placing, err)
	}
	if placing.Bounded != nil {
		return placing.Bounded
	}
	endOrder(t, s, order, a)
	return nil
}

// endOrder ends an order without a token.
func endOrder(t *testing.T, s *replica, order Ref, a Attempt) {
	t.Helper()
	how, err := s.Fail(t.Context(), Failure{Ref: order, Bought: a == Unsolved, Callback: true, Attempt: a, Reason: "because of " + string(a)})
	if err != nil || how != Ended {
		t.Fatalf("ending: %v, %v", how, err)
	}
}

// solve places an order and settles it with a token. The test fails if Place refuses the order.
func solve(t *testing.T, s *replica, id captcha.ID, order string) {
	t.Helper()
	place(t, s, id, order)
	if how, err := s.Settle(t.Context(), Landing{Ref: Ref{id, order}, Callback: true, Value: order, Lifetime: time.Minute}); err != nil || how != Ended {
		t.Fatalf("landing: %v, %v", how, err)
	}
}

// After three refusals in a row, an identity is bounded at all replicas. A solve ends the bound.
func testAttemptsAreBounded(t *testing.T, o Options) {
	o.Prefix = "attempts"
	one, two, id, n := open(t, o), open(t, o), identity("refused"), 0
	for range 3 {
		if held := failNext(t, one, id, &n, Declined); held != nil {
			t.Fatalf("bounded early: %+v", held)
		}
	}
	held := failNext(t, two, id, &n, Declined)
	if held == nil || held.Hopeless || held.RetryAfter <= 0 || held.RetryAfter > 5*time.Second || held.Reason != "because of refused" {
		t.Fatalf("held %+v", held)
	}
	a := look(t, two, id).Attempts
	if a.Refused != 3 || a.Failed != 0 || a.Hopeless || a.Bounded <= 0 || a.Next <= 0 || a.Next > 5*time.Second || a.Every != 5*time.Second || a.Reason != held.Reason {
		t.Errorf("%+v", a)
	}
	expect(t, true)(two.Retry(t.Context(), id))
	solve(t, one, id, "solved")
	if a := look(t, two, id).Attempts; a != (Attempts{}) {
		t.Errorf("after a solve: %+v", a)
	}
	if bounded, err := two.Retry(t.Context(), id); err != nil || bounded {
		t.Errorf("retry without a bound: %v, %v", bounded, err)
	}
}

// Rejected parameters are probed after 1, 2, 4 … 60 minutes, and are remembered meanwhile. The
// rejection of a guest's parameters is forgotten after two minutes.
func TestRejectedParametersAreProbed(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, one, two *replica, id captcha.ID) {
		n := 0
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			if held := failNext(t, one, id, &n, Hopeless); held != nil {
				t.Fatalf("probe %d: %+v", i, held)
			}
			held := failNext(t, two, id, &n, Hopeless)
			if held == nil || !held.Hopeless || held.RetryAfter != want*time.Minute {
				t.Fatalf("after rejection %d: %+v, want %v minutes", i, held, int(want))
			}
			if a := look(t, two, id).Attempts; !a.Hopeless || a.Next != want*time.Minute || a.Every != want*time.Minute {
				t.Errorf("%+v", a)
			}
			time.Sleep(want * time.Minute)
		}
		if ttl := one.db.Slow.PTTL(t.Context(), one.keys(id).attempts).Val(); ttl < 22*time.Hour {
			t.Errorf("it is forgotten in %v", ttl)
		}
		// Retry resets the interval between two probes. A refusal for another reason does not end the
		// rejection.
		if _, err := two.Retry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if held := failNext(t, one, id, &n, Declined); held != nil {
			t.Fatalf("%+v", held)
		}
		if a := look(t, two, id).Attempts; !a.Hopeless || a.Next != time.Minute {
			t.Errorf("after a try: %+v", a)
		}
		guest := identity("guest")
		placeOrder(t, one, Order{Ref: Ref{guest, "g"}, Depth: 1, TTL: time.Minute, Guest: true})
		if _, err := one.Fail(t.Context(), Failure{Ref: Ref{guest, "g"}, Callback: true, Attempt: Hopeless, Guest: true}); err != nil {
			t.Fatal(err)
		}
		if ttl := one.db.Slow.PTTL(t.Context(), one.keys(guest).attempts).Val(); ttl <= 0 || ttl > 2*time.Minute {
			t.Errorf("a guest is forgotten in %v", ttl)
		}
	})
}
