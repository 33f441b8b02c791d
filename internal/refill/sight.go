package refill

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
)

// sight is what a worker saw at a look. Where nothing has happened since, it can decide by
// it once more: an adaptive target is decided about each second while there is demand, and
// Redis need not be asked each time.
type sight struct {
	query pool.Query
	stock pool.Stock
	until time.Time // it is not decided by any more; the zero time where nothing was seen
}

// stands is how long the stock stays as it was seen where nothing happens but that time
// passes. Callers who wait leave without a word.
func (s *sight) stands() time.Duration {
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

// reconsider decides by what was seen last. It holds where nothing else can have happened
// and nothing is to be ordered; else the stock is looked at. What other replicas do
// kicks nobody here, so it never holds beside one.
func (w *worker) reconsider(ctx context.Context, at time.Time, plan policy.Plan) (pause rest, holds bool) {
	saw := &w.last
	if !w.calm || !at.Before(saw.until) {
		return rest{}, false
	}
	if !w.close(plan.Lead, saw.query.Lead) {
		return rest{}, false
	}
	plan.Lead = saw.query.Lead
	d := bounded(w.tracker.Decide(at, plan, seen(&saw.stock)), saw.stock.Attempts)
	if d.Order > 0 {
		return rest{}, false
	}
	w.note(ctx, at, d, saw.stock)
	return rest{least: coalesce, most: min(d.Look, saw.until.Sub(at)), content: true}, true
}
