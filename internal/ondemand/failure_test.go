package ondemand

import (
	"math/rand/v2"
	"testing"
	"time"
)

// If every task fails, each caller gets one error and causes one order.
func TestAFailedOrderAnswersOneCaller(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.fail = true
		var a answers
		a.call(t.Context(), w.replicas[0], 15, request("x")).call(t.Context(), w.replicas[1], 15, request("x"))
		time.Sleep(5 * time.Second)
		a.call(t.Context(), w.replicas[1], 15, request("x")).calls.Wait()
		time.Sleep(time.Minute)
		if failed[*SolveError](&a) != 45 || w.service.sold() != 45 {
			t.Errorf("%d callers were told, %d solves bought: %v", failed[*SolveError](&a), w.service.sold(), a.errs)
		}
		// The failure is not remembered.
		w.service.with(func() { w.service.fail = false })
		if token, err := w.replicas[0].Solve(t.Context(), request("x")); err != nil || token.Source != FromSolve {
			t.Errorf("the next one: %+v, %v", token, err)
		}
	})
}

// crossOrders makes the second caller's order, placed by replica 1, serve the first caller, at replica
// 0. The first caller's order is still in flight and will fail.
func crossOrders(t *testing.T, w *scenario) *answers {
	t.Helper()
	var first, second answers
	w.service.with(func() { w.service.fail, w.service.lead = true, 30*time.Second })
	first.call(t.Context(), w.replicas[0], 1, request("x"))
	time.Sleep(time.Second)
	w.service.with(func() { w.service.fail, w.service.lead = false, 10*time.Second })
	second.call(t.Context(), w.replicas[1], 1, request("x"))
	first.calls.Wait()
	if len(first.errs) > 0 || w.service.sold() != 2 {
		t.Fatalf("the first caller: %v, %d bought", first.errs, w.service.sold())
	}
	return &second
}

// A caller without an order immediately gets the error of a failed order, even if the caller waits
// at another replica.
func TestAFailureAnswersACallerAtAnotherReplica(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		began := time.Now()
		second := crossOrders(t, w)
		second.calls.Wait()
		took := time.Since(began)
		if failed[*SolveError](second) != 1 || w.service.sold() != 2 || took > 32*time.Second {
			t.Errorf("after %v: %v, %d bought for two callers", took, second.errs, w.service.sold())
		}
	})
}

// A failure answers all callers that share a ticket, at all replicas. A later caller with the same key
// gets a new order.
func TestCallersWithOneKeyFailTogether(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.fail = true
		keyed := request("x")
		keyed.Take.Idempotency = "key"
		var a answers
		a.call(t.Context(), w.replicas[0], 3, keyed)
		time.Sleep(time.Second)
		a.call(t.Context(), w.replicas[1], 3, keyed).calls.Wait()
		if failed[*SolveError](&a) != 6 || w.service.sold() != 1 {
			t.Errorf("%v, %d bought", a.errs, w.service.sold())
		}
		w.service.with(func() { w.service.fail = false })
		for _, r := range w.replicas {
			if _, err := r.Solve(t.Context(), keyed); err != nil {
				t.Errorf("asked again: %v", err)
			}
		}
		if w.service.sold() != 2 {
			t.Errorf("%d bought", w.service.sold())
		}
	})
}

// Each call causes one order, and ends with a token of its own or with the error of one failed
// order. The calls come at random times and at random replicas.
func TestEachCallHasOneOrder(t *testing.T) {
	const calls = 100
	play(t, 3, func(t *testing.T, w *scenario) {
		// Only one order in five fails, because after eight failures in a row poold would limit the orders of the identity.
		w.service.with(func() { w.service.share, w.service.spread = 0.2, 3*time.Second })
		var a answers
		for range calls {
			a.call(t.Context(), w.replicas[rand.IntN(3)], 1, request("x"))
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		a.calls.Wait()
		dead := w.service.dead()
		if w.service.sold() != calls || failed[*SolveError](&a) != dead || len(a.errs) != dead || len(a.tokens) != calls-dead || a.sources[FromSolve] != calls-dead {
			t.Errorf("%d bought for %d calls; %d tasks failed, %d served, %d errors: %v", w.service.sold(), calls, dead, len(a.tokens), len(a.errs), a.errs)
		}
	})
}
