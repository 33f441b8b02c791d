package ondemand

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
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

// A failure answers the longest waiting caller, and all callers that share the ticket of this caller.
func TestAFailureAnswersTheOldestCaller(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		keyed := request("x")
		keyed.Take.Idempotency = "key"
		var first, second answers
		w.service.fail = true
		first.call(t.Context(), w.replicas[0], 3, keyed)
		time.Sleep(5 * time.Second) // so that the first caller's order ends first, whenever the polls happen
		w.service.with(func() { w.service.fail = false })
		second.call(t.Context(), w.replicas[0], 1, request("x"))
		first.calls.Wait()
		second.calls.Wait()
		if failed[*SolveError](&first) != 3 || len(second.errs) > 0 || w.service.sold() != 2 {
			t.Errorf("first %v, second %v, %d bought", first.errs, second.errs, w.service.sold())
		}
	})
}

// slowFail delays the results of the method Fail.
type slowFail struct {
	purchase.Orders
	by time.Duration
}

func (s slowFail) Fail(ctx context.Context, f pool.Failure) (pool.EndResult, error) {
	how, err := s.Orders.Fail(ctx, f)
	time.Sleep(s.by)
	return how, err
}

// slowTake delays the results of the method Take.
type slowTake struct {
	Tokens
	longer time.Duration
}

func (l slowTake) Take(ctx context.Context, r pool.Request) (pool.Token, error) {
	token, err := l.Tokens.Take(ctx, r)
	time.Sleep(l.longer)
	return token, err
}

// Two callers wait, and the order of the second fails. At this moment the first caller already has
// a token, but its replica still lists it as waiting and does not know of the failure. The second
// caller gets the error, and no further order is placed.
func TestAFailureCausesNoExtraOrder(t *testing.T) {
	play(t, 0, func(t *testing.T, w *scenario) {
		r := w.start(doubles{
			tokens: func(t Tokens) Tokens { return slowTake{t, 5 * time.Second} },
			orders: func(o purchase.Orders) purchase.Orders { return slowFail{o, 3 * time.Second} },
		})
		var a answers
		a.call(t.Context(), r, 1, request("x"))
		time.Sleep(time.Second)
		w.service.with(func() { w.service.fail = true })
		a.call(t.Context(), r, 1, request("x")).calls.Wait()
		if a.sources[FromSolve] != 1 || failed[*SolveError](&a) != 1 || w.service.sold() != 2 {
			t.Errorf("served %v, told %v, %d bought for two callers", a.sources, a.errs, w.service.sold())
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

type noAdoption struct{ purchase.Orders }

func (noAdoption) Adopt(context.Context, captcha.ID, []string) ([]pool.Record, []pool.Ref, error) {
	return nil, nil, nil
}

// A replica without callers adopts an order. The failure of this order answers a caller at another
// replica.
func TestTheFailureOfAnAdoptedOrderAnswersACaller(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		w.start(doubles{orders: func(o purchase.Orders) purchase.Orders { return noAdoption{o} }})
		w.start(doubles{})
		second := crossOrders(t, w)
		w.end(w.replicas[0])
		second.calls.Wait()
		if failed[*SolveError](second) != 1 || w.service.sold() != 2 {
			t.Errorf("%v, %d bought for two callers", second.errs, w.service.sold())
		}
	})
}

// A provider rejects the parameters after the submit. The rejection goes to a caller, and the
// replica of this caller remembers the rejection.
func TestALateRejectionIsRememberedAtTheCallersReplica(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.with(func() { w.service.cause = &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"} })
		second := crossOrders(t, w)
		second.calls.Wait()
		var refusal *SolveError
		if len(second.errs) != 1 || !errors.As(second.errs[0], &refusal) || !refusal.Refused {
			t.Errorf("the second caller: %v", second.errs)
		}
		var third answers
		third.call(t.Context(), w.replicas[1], 1, request("x")).calls.Wait()
		if failed[*SolveError](&third) != 1 || w.service.sold() != 2 {
			t.Errorf("the next caller: %v, %d bought", third.errs, w.service.sold())
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

// A failure answers no caller if each caller has an order.
func TestAFailureAnswersNoCallerWithAnOrder(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		hangUp, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var gone, stays answers
		w.service.with(func() { w.service.fail = true })
		gone.call(hangUp, w.replicas[0], 1, request("x"))
		time.Sleep(time.Second)
		w.service.with(func() { w.service.fail, w.service.lead = false, 20*time.Second })
		stays.call(t.Context(), w.replicas[0], 1, request("x")).calls.Wait()
		if len(stays.errs) > 0 || w.service.sold() != 2 {
			t.Errorf("%v, %d bought", stays.errs, w.service.sold())
		}
		// The failure does not answer a later caller either.
		w.service.with(func() { w.service.fail, w.service.lead = true, 10*time.Second })
		hangUp, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		gone.call(hangUp, w.replicas[0], 1, request("x"))
		time.Sleep(11500 * time.Millisecond)
		w.service.with(func() { w.service.fail = false })
		if _, err := w.replicas[1].Solve(t.Context(), request("x")); err != nil || w.service.sold() != 4 {
			t.Errorf("who came after a failure: %v, %d bought", err, w.service.sold())
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
