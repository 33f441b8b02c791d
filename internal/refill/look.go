package refill

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
)

// seenFor limits the age of a look that Manager.Stock returns. The limit exceeds the time between two
// looks of an idle worker, so that the status needs no further looks.
const seenFor = time.Minute

// lookResult is the result of a look. A worker uses one result for several decisions while nothing
// changes. An adaptive target with demand decides about once a second, but most decisions need no new
// look. Manager.Stock also shows the result to readers of the status. A stored lookResult is
// immutable.
type lookResult struct {
	query    pool.Query
	stock    pool.Stock
	at       time.Time // time of the look
	until    time.Time // time at which the result becomes stale
	division *division // division of the identities at the look
}

// alone reports whether this replica has been the only live replica since the look. If not, changes by
// another replica may have changed the stock and not have woken the worker. Without a look, alone
// returns false.
func (s *lookResult) alone(now *division) bool {
	return s != nil && s.division == now && now.only()
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
func (w *worker) reconsider(ctx context.Context, at time.Time, plan policy.Plan) (pause waitRange, holds bool) {
	saw := w.last.Load()
	if !w.calm || !saw.alone(w.division) || !at.Before(saw.until) {
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

// Stock returns the stock that the target's worker read last, and the time of that read. The result
// is false if the stock may have changed since, or if the read did not include the last hour. A change
// that wakes no worker, such as a report on a token, is in the stock at the latest after seenFor.
func (m *Manager) Stock(name string, at time.Time) (stock pool.Stock, read time.Time, holds bool) {
	w := m.workers.Load().byName[name]
	if w == nil {
		return pool.Stock{}, time.Time{}, false
	}
	saw := w.last.Load()
	if !saw.alone(m.looker.division.Load()) || w.woken.Load() || at.Sub(saw.at) >= min(seenFor, saw.validFor()) {
		return pool.Stock{}, time.Time{}, false
	}
	// The steps of an order in flight wake no worker.
	if saw.stock.Orders > 0 || !saw.query.Hour {
		return pool.Stock{}, time.Time{}, false
	}
	return saw.stock, saw.at, true
}
