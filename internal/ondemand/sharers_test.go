package ondemand

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"poold/internal/pool"
)

// Callers that share a token report with different IDs. A caller cannot report with the ID of another
// caller. One report counts for all callers.
func TestSharersReportWithTheirOwnIDs(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		var mu sync.Mutex
		var calls sync.WaitGroup
		ids := map[string]string{} // IDs by caller
		call := func(r *replica, caller string) {
			calls.Go(func() {
				ask := sharing(request("x"))
				ask.Take.Caller = caller
				token, err := r.Solve(t.Context(), ask)
				if err != nil {
					t.Errorf("%s: %v", caller, err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[caller] = token.ID
			})
		}
		for i, r := range w.replicas {
			call(r, fmt.Sprint("first at ", i))
			call(r, fmt.Sprint("second at ", i))
		}
		calls.Wait()
		call(w.replicas[1], "later")
		calls.Wait()
		stock, id := w.replicas[0].store.Tokens, request("x").Take.ID
		for owner, token := range ids {
			for caller := range ids {
				err := stock.Sold(t.Context(), id, token, caller)
				if own := caller == owner; own && err != nil || !own && !errors.Is(err, pool.ErrUnknownToken) {
					t.Errorf("%q with the ID of %q: %v", caller, owner, err)
				}
			}
		}
		if _, err := stock.Report(t.Context(), id, ids["first at 1"], "first at 1", true); err != nil {
			t.Errorf("the first report: %v", err)
		}
		if _, err := stock.Report(t.Context(), id, ids["first at 0"], "first at 0", true); !errors.Is(err, pool.ErrReported) {
			t.Errorf("the second report: %v", err)
		}
	})
}

// A token that barely outlives the margin is shared only until its margin begins. The next caller
// begins a new solve.
func TestATokenIsNotSharedWithinItsMargin(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		ask := sharing(request("x"))
		ask.Guest.Spec.Lifetime = ask.Take.Margin + 5*time.Second
		call := func(r *replica, source pool.Source, sold int) (left time.Duration) {
			t.Helper()
			token, err := r.Solve(t.Context(), ask)
			if err != nil || token.Source != source || token.TTL <= ask.Take.Margin || w.service.sold() != sold {
				t.Errorf("%+v, %v, %d bought; want source %s and %d", token, err, w.service.sold(), source, sold)
			}
			return token.TTL - ask.Take.Margin
		}
		left := call(w.replicas[0], FromSolve, 1)
		time.Sleep(left - 500*time.Millisecond)
		call(w.replicas[1], FromShared, 1)
		time.Sleep(time.Second)
		call(w.replicas[1], FromSolve, 2)
	})
}

// All callers hang up while their solve is under way. They leave no share behind, and the next caller
// gets the token of their order.
func TestASolveWithoutCallersIsReleased(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.lead = 3 * time.Second
		hangUp, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var gone answers
		gone.call(hangUp, w.replicas[0], 3, sharing(request("x"))).calls.Wait()
		time.Sleep(4 * time.Second)
		for i, r := range w.replicas {
			r.shares.mu.Lock()
			if len(r.shares.of) > 0 {
				t.Errorf("%d shares at replica %d", len(r.shares.of), i)
			}
			r.shares.mu.Unlock()
		}
		// The next caller does not wait for the end of the lease.
		began := time.Now()
		token, err := w.replicas[1].Solve(t.Context(), sharing(request("x")))
		if took := time.Since(began); err != nil || token.Source != pool.FromPool || w.service.sold() != 1 || took > time.Second {
			t.Errorf("after %v: %+v, %v, %d bought", took, token, err, w.service.sold())
		}
	})
}
