package refill

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
)

// lookResult is the result of a look. A worker uses one result for several decisions while nothing
// changes. An adaptive target with demand decides about once a second, but most decisions need no new
// look.
type lookResult struct {
	query pool.Query
	stock pool.Stock
	until time.Time // time at which the result becomes stale; zero = there is no result
}

// validFor returns how long the result stays valid without an event: for example, until the next
// token or order expires. If callers wait, it is 0, because callers can leave without an event.
func (s *lookResult) validFor() time.Duration {
	if s.stock.Waiting > 0 {
		return 0
	}
	change := policy.Never
	for _, next := range []struct {
		is bool
		in time.Duration
	}{
		{s.stock.Fresh > 0, s.stock.NextExpiry},
		{s.stock.NextLook >= 0, s.stock.NextLook},
		{s.stock.NextEnd > 0, s.stock.NextEnd},
		{s.stock.Resumes > 0, s.stock.Resumes},
		{s.stock.Attempts.Next > 0, s.stock.Attempts.Next},
	} {
		if next.is {
			change = min(change, next.in)
		}
	}
	return change
}

// reconsider decides again with the result of the last look. It returns true if nothing can have
// changed since that look and there is nothing to order. If it returns false, the worker must look.
// While another replica is alive, it returns false, because changes by other replicas do not wake
// this worker.
func (w *worker) reconsider(ctx context.Context, at time.Time, plan policy.Plan) (pause waitRange, holds bool) {
	saw := &w.last
	if !w.calm || !at.Before(saw.until) {
		return waitRange{}, false
	}
	if !w.nearEnough(plan.Lead, saw.query.Lead) {
		return waitRange{}, false
	}
	plan.Lead = saw.query.Lead
	d := bounded(w.tracker.Decide(at, plan, seen(&saw.stock)), saw.stock.Attempts)
	if d.Order > 0 {
		return waitRange{}, false
	}
	w.note(ctx, at, d, saw.stock)
	return waitRange{least: coalesce, most: min(d.Look, saw.until.Sub(at)), passive: true}, true
}
