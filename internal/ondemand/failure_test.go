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

// Where every task fails each caller is told so once, and none has caused a second
// order.
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
		// It is not remembered.
		w.service.with(func() { w.service.fail = false })
		if token, err := w.replicas[0].Solve(t.Context(), request("x")); err != nil || token.Source != FromSolve {
			t.Errorf("the next one: %+v, %v", token, err)
		}
	})
}

// The longest waiting caller is told of a failure, and those who hold its ticket.
func TestTheLongestWaitingIsTold(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		keyed := request("x")
		keyed.Take.Idempotency = "key"
		var first, second answers
		w.service.fail = true
		first.call(t.Context(), w.replicas[0], 3, keyed)
		time.Sleep(5 * time.Second) // so that its order ends first, however polls fall
		w.service.with(func() { w.service.fail = false })
		second.call(t.Context(), w.replicas[0], 1, request("x"))
		first.calls.Wait()
		second.calls.Wait()
		if failed[*SolveError](&first) != 3 || len(second.errs) > 0 || w.service.sold() != 2 {
			t.Errorf("first %v, second %v, %d bought", first.errs, second.errs, w.service.sold())
		}
	})
}

// slow are orders of which the buyer hears late that they failed.
type slow struct {
	purchase.Orders
	by time.Duration
}

func (s slow) Fail(ctx context.Context, f pool.Failure) (pool.Ending, error) {
	how, err := s.Orders.Fail(ctx, f)
	time.Sleep(s.by)
	return how, err
}

// lingering are callers that go on a while after what their take was answered.
type lingering struct {
	Tokens
	longer time.Duration
}

func (l lingering) Take(ctx context.Context, r pool.Request) (pool.Token, error) {
	token, err := l.Tokens.Take(ctx, r)
	time.Sleep(l.longer)
	return token, err
}

// An order fails while the caller is not quite gone that got another one's token, and
// before the replica knows: its own caller is told, and no other order is placed for it.
func TestAFailureBeforeItsReplicaKnows(t *testing.T) {
	play(t, 0, func(t *testing.T, w *scenario) {
		r := w.start(doubles{
			tokens: func(t Tokens) Tokens { return lingering{t, 5 * time.Second} },
			orders: func(o purchase.Orders) purchase.Orders { return slow{o, 3 * time.Second} },
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

// crossed has the first caller, at replica 0, served by what was ordered for the second
// one, at replica 1, while its own order, which will fail, is under way.
func crossed(t *testing.T, w *scenario) *answers {
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

// The caller that an order lacks is told of its failure wherever it waits, within a
// moment.
func TestAFailureIsToldAtAnotherReplica(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		began := time.Now()
		second := crossed(t, w)
		second.calls.Wait()
		took := time.Since(began)
		if failed[*SolveError](second) != 1 || w.service.sold() != 2 || took > 32*time.Second {
			t.Errorf("after %v: %v, %d bought for two callers", took, second.errs, w.service.sold())
		}
	})
}

// blind are orders of a replica that adopts none.
type blind struct{ purchase.Orders }

func (blind) Adopt(context.Context, captcha.ID, []string) ([]pool.Record, []pool.Ref, error) {
	return nil, nil, nil
}

// The same where the order was adopted, and nobody waits at the replica that did so.
func TestTheFailureOfAnAdoptedOrderIsTold(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		w.start(doubles{orders: func(o purchase.Orders) purchase.Orders { return blind{o} }})
		w.start(doubles{})
		second := crossed(t, w)
		w.end(w.replicas[0])
		second.calls.Wait()
		if failed[*SolveError](second) != 1 || w.service.sold() != 2 {
			t.Errorf("%v, %d bought for two callers", second.errs, w.service.sold())
		}
	})
}

// What the provider finds wrong with the parameters after it had taken the order is
// remembered where it is told.
func TestALateRefusalIsRememberedWhereItIsTold(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.with(func() { w.service.cause = &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"} })
		second := crossed(t, w)
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

// All that hold one ticket are told together, at whichever replica they wait; who comes
// with the same key after that has an order of its own.
func TestThoseOfOneKeyAreToldTogether(t *testing.T) {
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

// A failure that no caller lacks is told to nobody.
func TestAFailureThatNobodyLacks(t *testing.T) {
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
		// Nor to who comes after it.
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

// However callers, failures and replicas fall: each call has one order, and each failure
// ends the wait of one.
func TestAnOrderForEachCallWhateverFails(t *testing.T) {
	const calls = 100
	play(t, 3, func(t *testing.T, w *scenario) {
		// One in five: eight failures in a row would bound the orders of the identity.
		w.service.with(func() { w.service.share, w.service.spread = 0.2, 3*time.Second })
		var a answers
		for range calls {
			a.call(t.Context(), w.replicas[rand.IntN(3)], 1, request("x"))
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		a.calls.Wait()
		dead := w.service.dead()
		if w.service.sold() != calls || failed[*SolveError](&a) != dead || len(a.errs) != dead || len(a.tokens) != calls-dead {
			t.Errorf("%d bought for %d calls; %d tasks failed, %d served, %d errors: %v", w.service.sold(), calls, dead, len(a.tokens), len(a.errs), a.errs)
		}
	})
}
