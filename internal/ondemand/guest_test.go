package ondemand

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
)

// A rejection of the parameters answers all pending callers, and all callers of the next minute.
func TestARejectionIsRemembered(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		w.service.refuse = &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"}
		var a answers
		a.call(t.Context(), w.replicas[0], 10, request("x")).calls.Wait()
		if failed[*SolveError](&a) != 10 {
			t.Fatalf("callers were told %v", a.errs)
		}
		w.redis.SetDown(true) // this replica remembers the rejection
		a = answers{}
		a.call(t.Context(), w.replicas[0], 1, request("x")).calls.Wait()
		if failed[*SolveError](&a) != 1 {
			t.Errorf("without redis: %v", a.errs)
		}
		w.redis.SetDown(false)
		time.Sleep(time.Second) // until Redis has all orders that were being placed
		w.service.with(func() { w.service.refuse = nil })
		time.Sleep(55 * time.Second)
		a = answers{}
		a.call(t.Context(), w.replicas[0], 1, request("x")).calls.Wait()
		if failed[*SolveError](&a) != 1 || w.service.sold() != 0 {
			t.Errorf("within the time: %v, %d bought", a.errs, w.service.sold())
		}
		time.Sleep(6 * time.Second)
		if _, err := w.replicas[0].Solve(t.Context(), request("x")); err != nil {
			t.Errorf("after the time: %v", err)
		}
	})
}

// During an outage, the callers of each guest get an OutageError within the duration `patience`.
// After the outage, callers get tokens.
func TestCallersLearnOfAnOutage(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		const guests = 20
		until := time.Now().Add(90 * time.Second).UTC()
		w.service.down, w.service.until = true, until
		began := time.Now()
		var a answers
		for i := range guests {
			a.call(t.Context(), w.replicas[0], 2, request(fmt.Sprint(i)))
		}
		a.calls.Wait()
		if failed[*OutageError](&a) != 2*guests || time.Since(began) < patience || time.Since(began) > 2*patience {
			t.Errorf("after %v: %v", time.Since(began), a.errs)
		}
		for _, err := range a.errs {
			if outage := (*OutageError)(nil); errors.As(err, &outage) && !outage.Until.Equal(until) {
				t.Errorf("until %v, want %v", outage.Until, until)
			}
		}
		w.service.with(func() { w.service.down = false })
		if _, err := w.replicas[0].Solve(t.Context(), request("x")); err != nil {
			t.Errorf("when it is back: %v", err)
		}
	})
}

// If a budget is used up, the callers without an order get a BudgetError. The others are served.
func TestAUsedUpBudgetRefusesCallersWithoutAnOrder(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		ask := request("x")
		ask.Guest.Spec.Guests = pool.Caps{PerHour: 5}
		began := time.Now()
		var first, second answers
		first.call(t.Context(), w.replicas[0], 5, ask)
		time.Sleep(time.Second)
		second.call(t.Context(), w.replicas[1], 5, ask).calls.Wait()
		took := time.Since(began)
		first.calls.Wait()
		if len(first.errs) > 0 || failed[*BudgetError](&second) != 5 || took > 5*time.Second || w.service.sold() != 5 {
			t.Errorf("first %v, second %v after %v, %d bought", first.errs, second.errs, took, w.service.sold())
		}
		for _, err := range second.errs {
			if used := (*BudgetError)(nil); errors.As(err, &used) && (used.RetryAfter < 59*time.Minute || used.RetryAfter > time.Hour) {
				t.Errorf("try again after %v", used.RetryAfter)
			}
		}
	})
}

// After a kill, a retry with the same Idempotency-Key at another replica gets the token of the first
// order.
func TestARetryAfterAKillGetsTheSameOrder(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		ask := request("x")
		ask.Take.Idempotency = "key"
		var lost answers
		lost.call(t.Context(), w.replicas[0], 1, ask)
		time.Sleep(3 * time.Second)
		w.kill(w.replicas[0])
		lost.calls.Wait()
		token, err := w.replicas[1].Solve(t.Context(), ask)
		if err != nil || w.service.sold() != 1 {
			t.Errorf("%+v, %v, %d bought", token, err, w.service.sold())
		}
	})
}

// A replica forgets guests and shares that have no callers and no orders, no matter whether the
// last caller leaves before or after the last order ends.
func TestGuestsAreForgotten(t *testing.T) {
	for name, during := range map[string]func(*service){
		"solved":    func(*service) {},
		"failed":    func(s *service) { s.fail = true },
		"down":      func(s *service) { s.down = true },
		"no answer": func(s *service) { s.refuse = errors.New("no answer") },
		"refused":   func(s *service) { s.refuse = &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"} },
	} {
		play(t, 1, func(t *testing.T, w *scenario) {
			w.service.with(func() { during(w.service) })
			hangUp, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
			defer cancel()
			var stay, leave answers
			for _, page := range []string{"a", "b", "c"} {
				stay.call(t.Context(), w.replicas[0], 2, request(page))
				stay.call(t.Context(), w.replicas[0], 2, sharing(request(page+"/shared")))
				leave.call(hangUp, w.replicas[0], 2, request(page+"/left"))
				leave.call(hangUp, w.replicas[0], 2, sharing(request(page+"/left and shared")))
			}
			stay.calls.Wait()
			leave.calls.Wait()
			w.service.with(func() { w.service.down, w.service.fail, w.service.refuse = false, false, nil })
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			s := w.replicas[0]
			s.guests.mu.Lock()
			defer s.guests.mu.Unlock()
			s.shares.mu.Lock()
			defer s.shares.mu.Unlock()
			if len(s.guests.of)+len(s.shares.of) > 0 {
				t.Errorf("%s: %d guests and %d claims are left", name, len(s.guests.of), len(s.shares.of))
			}
			if len(leave.errs) != 12 || (len(stay.errs) == 0) != (name == "solved") {
				t.Errorf("%s: %v, %v", name, stay.errs, leave.errs)
			}
		})
	}
}
