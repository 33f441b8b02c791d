package refill

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// coalesce is the minimum time between two looks of a worker. Wake-ups within this time share one
	// look.
	coalesce = 20 * time.Millisecond
	// If no wake-up comes, a worker looks again after backstop plus a random time up to
	// backstopSpread, so that a thousand workers do not look at the same time.
	backstop       = 10 * time.Second
	backstopSpread = 5 * time.Second
	// After quietLooks looks without a change, a worker waits three times as long as usual.
	quietLooks = 3
	// If a provider had no capacity, a target tries its next order after a random time between
	// busyWait and twice busyWait.
	busyWait = 250 * time.Millisecond
	// While Redis is down, a worker retries with a backoff from awayFirst to awayMost.
	awayFirst = 250 * time.Millisecond
	awayMost  = 2 * time.Second
	// While a worker waits for a slot, a wake-up updates its bid at most once per bidFor.
	bidFor = 500 * time.Millisecond
	// starvedAfter is how long a target may wait for a slot before its state is starved.
	starvedAfter = 2 * time.Second
	// leastUnseen is the smallest result of worker.unseen. leastUnseen applies if tokens live only
	// about as long as an order takes.
	leastUnseen = time.Second
	// keepEvery is the interval at which a look extends the TTLs of the identity's keys.
	keepEvery = time.Hour
	// budgetWait is how long a worker ignores wake-ups after a budget was used up.
	budgetWait = 5 * time.Second
	// panicWait is the pause after a panic, so that a worker that panics at each turn does not spin.
	panicWait = time.Second
)

// worker keeps one target filled.
type worker struct {
	target targets.Target
	stock  Stock
	buyer  Buyer
	log    *slog.Logger
	buy    buy
	woken  atomic.Bool // whether there was a wake-up since the last look
	status status      // shared with the goroutines of orders and with Status
	// last is the last look if a decision can reuse it, else nil. The goroutine that runs the turn
	// replaces it.
	last atomic.Pointer[lookResult]
	// owner is the target's owner. A reload that changes only the owner does not replace the worker.
	owner atomic.Pointer[string]

	ctx  context.Context // cancelled by stop
	stop context.CancelFunc
	done chan struct{} // closed when the worker has ended

	watched   atomic.Bool                  // whether this replica watches the target
	remote    atomic.Pointer[sharedStatus] // status that the watching replica shared
	refreshed atomic.Int64                 // time of the last read of remote by Manager.Current, in Unix ns

	// The goroutine that runs the turn owns the following fields.
	tracker      *policy.Tracker
	stockBackoff time.Duration // last wait for Redis; 0 while Redis works
	kept         time.Time     // time of the last look with pool.Query.Keep
	looked       bool          // whether a look has succeeded
	figures      pool.Figures  // counters at the last look
	quiet        int           // number of consecutive looks without a change
	absent       bool          // whether another replica has watched the target meanwhile
	calm         bool          // whether there was no wake-up since the last turn
	shared       Status        // last status shared with the other replicas
	sharedAt     time.Time
	sharedIn     *division // division of the identities at sharedAt
	ordering     *ordering // orders for which the worker bids; nil = none

	// The looker's mu guards the following fields.
	due          time.Time // time of the next turn
	earliest     time.Time // earliest time of the next turn after a wake-up
	queueIndex   int       // index in the looker's queue; -1 = a turn of the worker runs
	passiveSince time.Time // start of the wait in which only a wake-up makes the worker due; zero = due is valid
	division     *division // division of the identities at the last turn
	dismissed    bool
	bidding      bool // whether the last request is pending, or its grant is not handled yet
	bids         int  // number of requests so far
	request      *purchase.Request
	grant        *grant // response to request that came during a turn
}

// buy places one order and runs it in the background.
type buy func(w *worker, slot *purchase.Slot, terms terms) error

// terms are the limits of one order. The stock refuses the order if the sum (tokens that outlive
// the lead time) + (orders) - (pending callers) has reached the depth.
type terms struct {
	depth          int
	lead, shortest time.Duration
}

// waitRange is how long a worker waits after a turn.
type waitRange struct {
	least time.Duration // minimum, even after a wake-up
	most  time.Duration // maximum without a wake-up, limited by the backstop
	// If passive is true and another replica watches the target, the worker has its next turn only
	// after a wake-up.
	passive bool
}

// newWorker returns a worker that is not yet in the looker's queue. The worker ends when ctx ends.
func newWorker(ctx context.Context, t targets.Target, stock Stock, buyer Buyer, buy buy, log *slog.Logger) *worker {
	w := &worker{
		target: t, stock: stock, buyer: buyer, buy: buy, log: log.With("target", t.Name),
		done: make(chan struct{}), queueIndex: -1,
	}
	w.ctx, w.stop = context.WithCancel(ctx)
	w.owner.Store(&t.Owner)
	first, interval := buyer.Pace(t.Identity.Type)
	params := Params(t, first, interval)
	w.tracker = policy.NewTracker(params, Windows(t))
	w.status.begin(t, params.Lead(), w.tracker.Credit())
	return w
}

// backstop returns the worker's longest wait without a wake-up. The wait is three times as long after
// quietLooks looks without a change.
func (w *worker) backstop() time.Duration {
	if w.quiet >= quietLooks {
		return 3 * (backstop + backoff.UpTo(backstopSpread))
	}
	return backstop + backoff.UpTo(backstopSpread)
}

// contained calls the function `part`, which is a part of a turn. A panic ends only this turn, not
// the daemon.
func (w *worker) contained(part func() waitRange) (next waitRange) {
	if err := panics.Contain(w.log, "panic in a target's worker", func() { next = part() }); err != nil {
		w.status.set(Starved, err.Error())
		return waitRange{least: panicWait, most: panicWait}
	}
	return next
}

// prepare begins a turn. If the turn needs a look, prepare returns true and the query for the look.
// Otherwise prepare returns the time to wait.
func (w *worker) prepare(ctx context.Context, at time.Time) (q pool.Query, pause waitRange, look bool) {
	if w.target.Halted() != "" {
		return q, waitRange{least: coalesce, most: policy.Never, passive: true}, false
	}
	if w.absent {
		w.tracker.Resume()
		w.absent, w.looked = false, false
	}
	if err := w.load(ctx, at); err != nil {
		return q, w.stockAway(ctx, err), false
	}
	first, interval := w.buyer.Pace(w.target.Identity.Type)
	w.tracker.Pace(first, interval)
	plan := w.tracker.Plan(at)
	if pause, holds := w.reconsider(ctx, at, plan); holds {
		return q, pause, false
	}
	w.last.Store(nil)
	q = w.query(plan.Lead)
	if q.Keep = at.Sub(w.kept) >= keepEvery; q.Keep {
		w.kept = at
	}
	return q, waitRange{}, true
}

// query returns the query for a look. The last hour of a busy target is long, and its looks are
// frequent. So only a look without a wake-up includes the hour, which only Manager.Stock needs.
func (w *worker) query(lead time.Duration) pool.Query {
	return pool.Query{ID: w.target.ID, Margin: w.target.Margin, Lead: lead, Hour: w.calm, Want: w.status.snapshot().Want}
}

// turn decides what to order for the stock that a look returned. If there is nothing to order, turn
// returns a nil order and the time to wait.
func (w *worker) turn(ctx context.Context, at time.Time, q pool.Query, stock pool.Stock) (next waitRange, order *ordering) {
	d, saw, err := w.decide(ctx, at, lookResult{query: q, stock: stock, at: at, division: w.division})
	if err != nil {
		return w.stockAway(ctx, err), nil
	}
	w.stockBackoff = 0
	d = bounded(d, saw.stock.Attempts)
	w.note(ctx, at, d, saw.stock)
	w.notice(&saw.stock)
	if saw.stock.Orders+d.Order > 0 {
		d.Look = min(d.Look, w.unseen(d.Lead))
	}
	passive := saw.stock.Waiting == 0
	if d.Order == 0 {
		saw.until = at.Add(min(w.backstop(), saw.validFor()))
		w.last.Store(&saw)
		return waitRange{least: coalesce, most: d.Look, passive: passive}, nil
	}
	return waitRange{}, &ordering{
		Decision: d, stock: saw.stock, on: w.terms(d, saw.stock),
		began: at, passive: passive,
	}
}

// bounded limits a decision while the target's orders fail. While the orders fail, the stock
// accepts one order at a time, with pauses between the orders.
func bounded(d policy.Decision, a pool.Attempts) policy.Decision {
	switch {
	case a.Bounded == 0:
	case a.Next > 0:
		if d.Order > 0 {
			d.Look = a.Next
		}
		d.Order = 0
	default:
		d.Order = min(d.Order, 1)
	}
	return d
}

// unseen returns the longest time between two looks while orders are in flight. A landing wakes
// only the replica that placed the order, so the watching replica finds another replica's token
// only by a look. The look must come while the token still lives longer than the lead time.
func (w *worker) unseen(lead time.Duration) time.Duration {
	return max(leastUnseen, w.target.Usable()-lead)
}

// note saves the learned state if a save is due, and updates the target's status with the decision.
func (w *worker) note(ctx context.Context, at time.Time, d policy.Decision, stock pool.Stock) {
	w.save(ctx, at, saveEvery)
	w.status.decided(d, stock, at, w.log)
}

// notice logs lost orders, and values that other programs wrote. notice also counts the looks
// without a change.
func (w *worker) notice(s *pool.Stock) {
	if w.looked {
		if lost := s.Figures.Lost - w.figures.Lost; lost > 0 {
			w.log.Warn("orders are lost: they expired before their outcome was known", "orders", lost)
		}
	}
	w.quiet++
	if s.Figures != w.figures || s.Orders+s.Waiting > 0 || s.Paused {
		w.quiet = 0
	}
	w.looked, w.figures = true, s.Figures
}

// decide returns the policy's decision, and the look on which the decision is based. If the policy
// plans with a different lead time after the look, decide looks again, so that the decision and the
// order use the same lead time.
func (w *worker) decide(ctx context.Context, at time.Time, saw lookResult) (policy.Decision, lookResult, error) {
	const looks = 3 // a limit, because a landing between two looks can change the lead time again
	for n := 1; ; n++ {
		if saw.stock.Err != nil {
			return policy.Decision{}, saw, saw.stock.Err
		}
		s := seen(&saw.stock)
		w.tracker.Learn(at, s)
		plan := w.tracker.Plan(at)
		if w.nearEnough(plan.Lead, saw.query.Lead) || n == looks {
			plan.Lead = saw.query.Lead
			return w.tracker.Decide(at, plan, s), saw, nil
		}
		saw.query = w.query(plan.Lead)
		again, err := w.stock.LookAll(ctx, []pool.Query{saw.query})
		if err != nil {
			return policy.Decision{}, saw, err
		}
		saw.stock = again[0]
	}
}

// nearEnough compares the lead time that a look used with the lead time that the policy wants. It
// reports whether the look suffices for the decision. For an adaptive target, the two lead times
// may differ by a tenth.
func (w *worker) nearEnough(wanted, looked time.Duration) bool {
	if w.target.Refill != targets.RefillAdaptive {
		return wanted == looked
	}
	return (wanted - looked).Abs() <= looked/10
}

// terms returns a function that returns the terms of the n-th order of a decision. With a fixed
// depth, the terms are the same for each order. With an adaptive depth, the depth grows by one with
// each order, so the stock refuses an order if another replica has ordered since the look.
func (w *worker) terms(d policy.Decision, s pool.Stock) func(nth int) terms {
	if w.target.Refill != targets.RefillAdaptive {
		return func(int) terms { return terms{depth: d.Want, lead: d.Lead, shortest: d.Shortest} }
	}
	held := s.Fresh + s.Orders - s.Waiting
	return func(nth int) terms {
		return terms{depth: min(held+nth+1, d.Most), shortest: d.Shortest}
	}
}

func (w *worker) spec(on terms) purchase.Spec {
	return purchase.Spec{
		Target: w.target.Name, Owner: *w.owner.Load(), Identity: w.target.Identity, ID: w.target.ID,
		Depth: on.depth, Margin: w.target.Margin, Lifetime: w.target.Lifetime,
		Lead: on.lead, Shortest: on.shortest,
		PerHour: w.target.Budget.PerHour, PerDay: w.target.Budget.PerDay, SimulatedOnly: w.target.SimulatedOnly,
	}
}

// hindered returns how long to wait after an order could not be placed.
func (w *worker) hindered(ctx context.Context, err error) waitRange {
	var budget *purchase.BudgetError
	var held *pool.BoundedError
	switch {
	case errors.As(err, &held):
		// The next look reads the time at which the target's next order is allowed.
		return waitRange{least: coalesce, most: coalesce}
	case errors.As(err, &budget):
		if at := time.Now(); w.status.outOfBudget(budget, at) {
			w.log.Warn("nothing more is bought for now", "err", err, "retry_at", at.Add(budget.RetryAfter).UTC().Truncate(time.Second))
		}
		return waitRange{least: coalesce, most: budget.RetryAfter}
	case errors.Is(err, purchase.ErrNoProvider), errors.Is(err, purchase.ErrReal):
		// A reload that adds a provider wakes the worker. After ErrReal, the reload that added the real
		// provider is about to replace the worker.
		w.status.set(Starved, err.Error())
		return waitRange{least: coalesce, most: policy.Never}
	case errors.Is(err, purchase.ErrBusy):
		w.status.busy(err, time.Now())
		return waitRange{least: coalesce} // status.delayedUntil delays the next order
	default:
		return w.stockAway(ctx, err)
	}
}

// stockAway returns the next backoff while Redis is down. It logs only at debug level, because the
// store logs the outage once for all targets.
func (w *worker) stockAway(ctx context.Context, err error) waitRange {
	if ctx.Err() != nil {
		return waitRange{} // not a fault of Redis: this worker is being stopped
	}
	reason := err.Error()
	if errors.Is(err, redisdb.ErrDown) {
		reason = redisdb.Reason(err)
	}
	w.log.Debug("stock not reached", "err", err)
	w.status.set(Starved, reason)
	w.stockBackoff = min(awayMost, max(awayFirst, 2*w.stockBackoff))
	wait := w.stockBackoff - backoff.UpTo(w.stockBackoff/4)
	return waitRange{least: wait, most: wait}
}

// ended updates the status after the end of an order, and wakes the worker unless a
// token landed.
func (w *worker) ended(r purchase.Result, wake func(captcha.ID)) {
	w.status.ended(r, time.Now())
	if r.Outcome != purchase.Solved {
		// The landing of a token wakes the worker anyway.
		wake(w.target.ID)
	}
}
