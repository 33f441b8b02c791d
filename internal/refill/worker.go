package refill

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// coalesce is the least time between two looks of a worker; kicks that come
	// within it share one.
	coalesce = 20 * time.Millisecond
	// A worker that nobody kicks looks again after backstop, and up to
	// backstopSpread later, so that a thousand of them do not look at once.
	backstop       = 10 * time.Second
	backstopSpread = 5 * time.Second
	// After quietLooks at which nothing had happened it rests three times as long.
	quietLooks = 3
	// busyWait, and up to as much again, passes before a target asks again
	// after a provider could not take its order.
	busyWait = 250 * time.Millisecond
	// While Redis is away a worker tries again after awayFirst, twice that, …
	awayFirst = 250 * time.Millisecond
	awayMost  = 2 * time.Second
	// A bid for a slot is made anew after a wake, but not before bidFor has passed.
	bidFor = 500 * time.Millisecond
	// starvedAfter is how long a target may wait for a slot before it is
	// called starved: a short queue is everyday life.
	starvedAfter = 2 * time.Second
	// leastUnseen bounds the looks at a target whose tokens live about as long as an
	// order takes.
	leastUnseen = time.Second
	// keepEvery is how often a look keeps what is known of the identity.
	keepEvery = time.Hour
	// budgetWait is how long kicks are not heard after a budget was used up.
	budgetWait = 5 * time.Second
	// panicWait keeps a worker with a fault from spinning.
	panicWait = time.Second
)

// worker keeps one target filled.
type worker struct {
	target targets.Target
	stock  Stock
	buyer  Buyer
	log    *slog.Logger
	buy    buy
	kicked atomic.Bool // something happened since the last look
	status status      // what is shared with the orders under way and Status
	// owner answers for the target; a new one does not replace the worker.
	owner atomic.Pointer[string]

	// Of the goroutine that takes the turn alone.
	tracker *policy.Tracker
	away    time.Duration // the last wait for Redis; 0 while it answers
	kept    time.Time     // when a look last kept what is known of the identity
	looked  bool          // ever
	figures pool.Figures  // at the last look
	quiet   int           // looks in a row at which nothing had happened
	absent  bool          // another replica has watched the target for a while
	calm    bool          // since the last turn nobody has kicked, and no other replica lived
	last    sight         // zero = the last turn did not end with one that can be decided by again
}

// buy places one order, which is then seen through in the background.
type buy func(w *worker, slot *purchase.Slot, terms terms) error

// terms are what one order is placed on: the stock refuses it where tokens that
// outlive the lead and orders, less the callers waiting, are depth already.
type terms struct {
	depth          int
	lead, shortest time.Duration
}

// rest is how long a worker rests after a turn.
type rest struct {
	least time.Duration // whatever happens
	most  time.Duration // if nobody kicks; policy.Never is cut to the backstop
	// content: nothing is left to be done here but by a kick, as long as another
	// replica watches the target.
	content bool
}

func newWorker(t targets.Target, stock Stock, buyer Buyer, buy buy, log *slog.Logger) *worker {
	w := &worker{target: t, stock: stock, buyer: buyer, buy: buy, log: log.With("target", t.Name)}
	w.owner.Store(&t.Owner)
	first, interval := buyer.Pace(t.Identity.Type)
	params := Params(t, first, interval)
	w.tracker = policy.NewTracker(params, Windows(t))
	w.status.begin(t, params.Lead(), w.tracker.Credit())
	return w
}

// backstop is how long the worker rests at most: longer where nothing has happened for
// some looks.
func (w *worker) backstop() time.Duration {
	if w.quiet >= quietLooks {
		return 3 * (backstop + random(backstopSpread))
	}
	return backstop + random(backstopSpread)
}

// contained takes a part of a turn. A panic ends the turn, not the daemon.
func (w *worker) contained(part func() rest) (next rest) {
	if err := panics.Contain(w.log, "panic in a target's worker", func() { next = part() }); err != nil {
		w.status.set(Starved, err.Error())
		return rest{least: panicWait, most: panicWait}
	}
	return next
}

// prepare begins a turn: it says how to look at the stock, or where there is no need
// to, how long to rest.
func (w *worker) prepare(ctx context.Context, at time.Time) (q pool.Query, pause rest, look bool) {
	if w.target.Paused {
		return q, rest{least: coalesce, most: policy.Never, content: true}, false
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
	q = w.query(plan.Lead)
	if q.Keep = at.Sub(w.kept) >= keepEvery; q.Keep {
		w.kept = at
	}
	return q, rest{}, true
}

func (w *worker) query(lead time.Duration) pool.Query {
	return pool.Query{ID: w.target.ID, Margin: w.target.Margin, Lead: lead}
}

// turn decides, with the stock as it was looked at. It returns what is to be ordered, or
// nil and how long to rest.
func (w *worker) turn(ctx context.Context, at time.Time, q pool.Query, stock pool.Stock) (next rest, order *ordering) {
	w.last = sight{}
	d, saw, err := w.decide(ctx, at, sight{query: q, stock: stock})
	if err != nil {
		return w.stockAway(ctx, err), nil
	}
	w.away = 0
	d = bounded(d, saw.stock.Attempts)
	w.note(ctx, at, d, saw.stock)
	w.notice(&saw.stock)
	if saw.stock.Orders+d.Order > 0 {
		d.Look = min(d.Look, w.unseen(d.Lead))
	}
	content := saw.stock.Waiting == 0
	if d.Order == 0 {
		saw.until = at.Add(min(w.backstop(), saw.stands()))
		w.last = saw
		return rest{least: coalesce, most: d.Look, content: content}, nil
	}
	return rest{}, &ordering{
		Decision: d, stock: saw.stock, on: w.terms(d, saw.stock),
		began: at, content: content,
	}
}

// bounded limits a decision while the target's orders fail: the stock lets one be placed
// now and then.
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

// unseen is how long the worker may leave the stock while orders are in flight. A landing
// wakes only the replica that placed the order, so the watcher learns of a token of
// another replica by looking: before the token can stop outliving the lead.
func (w *worker) unseen(lead time.Duration) time.Duration {
	return max(leastUnseen, w.target.Usable()-lead)
}

// note keeps what was learned, and says of the target what was decided.
func (w *worker) note(ctx context.Context, at time.Time, d policy.Decision, stock pool.Stock) {
	w.save(ctx, at, saveEvery)
	w.unload(ctx, at)
	w.status.decided(d, stock, at, w.log)
	w.status.shadowed(w.tracker.Shadow())
}

// notice logs what a person must know of the stock, and counts the looks at which
// nothing had happened.
func (w *worker) notice(s *pool.Stock) {
	if w.looked {
		if lost := s.Figures.Lost - w.figures.Lost; lost > 0 {
			w.log.Warn("orders are lost: nobody could say whether they were bought, and their time is over", "orders", lost)
		}
		if junk := s.Figures.Junk - w.figures.Junk; junk > 0 {
			w.log.Warn("values of another program, or of a version that this one cannot read, stood among the tokens and orders; they are set aside in redis under \"junk\"",
				"values", junk)
		}
	}
	w.quiet++
	if s.Figures != w.figures || s.Orders+s.Waiting > 0 || s.Paused {
		w.quiet = 0
	}
	w.looked, w.figures = true, s.Figures
}

// decide asks the policy. Where it then wants the stock judged by another lead time it
// is looked at again, so that the decision, its lead and the order's are one. It answers
// what it decided by.
func (w *worker) decide(ctx context.Context, at time.Time, saw sight) (policy.Decision, sight, error) {
	const looks = 3 // a landing in between can move the median once more
	for n := 1; ; n++ {
		if saw.stock.Err != nil {
			return policy.Decision{}, saw, saw.stock.Err
		}
		s := seen(&saw.stock)
		w.tracker.Learn(at, s, w.buyer.Concurrency())
		plan := w.tracker.Plan(at)
		if w.close(plan.Lead, saw.query.Lead) || n == looks {
			plan.Lead = saw.query.Lead
			return w.tracker.Decide(at, plan, s), saw, nil
		}
		saw.query = w.query(plan.Lead)
		again, err := w.stock.Survey(ctx, []pool.Query{saw.query})
		if err != nil {
			return policy.Decision{}, saw, err
		}
		saw.stock = again[0]
	}
}

// close reports whether a stock that was looked at with one lead time can be
// judged by another. That of an adaptive target moves with every request.
func (w *worker) close(wanted, looked time.Duration) bool {
	if w.target.Refill != targets.RefillAdaptive {
		return wanted == looked
	}
	return (wanted - looked).Abs() <= looked/10
}

// terms says on what the nth order of a decision is placed. With a fixed depth
// the depth sentence holds for each. With an adaptive one the stock is compared:
// where another replica has ordered since the look, there is one less to order.
func (w *worker) terms(d policy.Decision, s pool.Stock) func(nth int) terms {
	if w.target.Refill != targets.RefillAdaptive {
		return func(int) terms { return terms{depth: d.Want, lead: d.Lead, shortest: d.Shortest} }
	}
	held := s.Fresh + s.Orders - s.Waiting
	return func(nth int) terms {
		return terms{depth: min(held+nth+1, d.Most), shortest: d.Shortest}
	}
}

// spec is the target's definition as an order needs it.
func (w *worker) spec(on terms) purchase.Spec {
	return purchase.Spec{
		Target: w.target.Name, Owner: *w.owner.Load(), Identity: w.target.Identity, ID: w.target.ID,
		Depth: on.depth, Margin: w.target.Margin, Lifetime: w.target.Lifetime,
		Lead: on.lead, Shortest: on.shortest,
		PerHour: w.target.Budget.PerHour, PerDay: w.target.Budget.PerDay,
	}
}

// hindered says how long to rest after a purchase was not possible.
func (w *worker) hindered(ctx context.Context, err error) rest {
	var budget *purchase.BudgetError
	var held *pool.HeldError
	switch {
	case errors.As(err, &held):
		// The next look says until when.
		return rest{least: coalesce, most: coalesce}
	case errors.As(err, &budget):
		if w.status.outOfBudget(budget, time.Now()) {
			w.log.Warn("nothing more is bought for now", "err", err)
		}
		return rest{least: coalesce, most: budget.RetryAfter}
	case errors.Is(err, purchase.ErrNoProvider):
		// A reload that brings one kicks.
		w.status.set(Starved, err.Error())
		return rest{least: coalesce, most: policy.Never}
	case errors.Is(err, purchase.ErrBusy):
		w.status.busy(err, time.Now())
		return rest{least: coalesce} // the status holds the next order back
	default:
		return w.stockAway(ctx, err)
	}
}

// stockAway makes the rests longer while Redis is away. The store logs that it
// is; a line of each target would only repeat it.
func (w *worker) stockAway(ctx context.Context, err error) rest {
	if ctx.Err() != nil {
		return rest{} // not Redis' fault: this worker is being stopped
	}
	reason := err.Error()
	if errors.Is(err, redisdb.ErrDown) {
		reason = redisdb.Reason(err)
	}
	w.log.Debug("stock not reached", "err", err)
	w.status.set(Starved, reason)
	w.away = min(awayMost, max(awayFirst, 2*w.away))
	wait := w.away - random(w.away/4)
	return rest{least: wait, most: wait}
}

// ended takes notice of how an order ended.
func (w *worker) ended(r purchase.Result, kick func(captcha.ID)) {
	w.status.ended(r, time.Now())
	if r.Outcome != purchase.Solved {
		// A landing kicks by itself.
		kick(w.target.ID)
	}
}

// random is between 0 and d.
func random(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // G404: nothing secret depends on it
}
