package purchase

import (
	"context"
	"log/slog"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/spool"
)

// Buyer buys for all targets of this replica. It is safe for concurrent use.
type Buyer struct {
	*base
	accounts  *accounts
	scheduler *scheduler
	placer    *placer
	orders    *orders
	recovery  *recovery
	reports   *reports
	callbacks *callbacks
	replay    *replay
}

// base contains the fields that all parts of a buyer share.
type base struct {
	stock   Orders
	observe Observer
	log     *slog.Logger
}

// releaseLeases ends this replica's leases on orders, so that other replicas can adopt them. If
// Redis does not answer, the leases expire.
func (b *base) releaseLeases(ctx context.Context, orders ...pool.Ref) {
	_ = withTimeout(ctx, func(ctx context.Context) error { return b.stock.ReleaseLeases(ctx, orders) })
}

// NewBuyer returns a buyer without providers. The argument folder is the directory of the dead
// letters. The argument observe must not be nil.
func NewBuyer(stock Orders, folder string, observe Observer, log *slog.Logger) *Buyer {
	b := &base{stock: stock, observe: observe, log: log}
	as, ls := newAccounts(b), newLifetimes()
	placer := &placer{base: b, accounts: as, lifetimes: ls}
	orders := newOrders(b, as, placer)
	cs := &callbacks{
		base: b, accounts: as, orders: orders, lifetimes: ls,
		arrivals: arrivals{at: map[pool.Ref]time.Time{}}, kept: spool.New(folder),
	}
	return &Buyer{
		base: b, accounts: as, scheduler: newScheduler(as), placer: placer, orders: orders,
		recovery: newRecovery(b, as, placer, orders, ls), reports: newReports(b, as), callbacks: cs, replay: newReplay(b, cs),
	}
}

// SetBudget sets the overall budget: the maximum number of solves in 24 h, over all targets and
// replicas; 0 = no limit.
func (b *Buyer) SetBudget(perDay int) { b.placer.setBudget(perDay) }

// Booked returns how many solves count in the overall daily budget, and the size of the budget.
func (b *Buyer) Booked(ctx context.Context) (used, perDay int, err error) {
	perDay = b.placer.budget()
	if perDay == 0 {
		return 0, 0, nil
	}
	_, used, err = b.stock.Booked(ctx, pool.Overall)
	return used, perDay, err
}

// BookedForGuests returns how many solves count for guests in the last 60 min and in the last 24 h.
func (b *Buyer) BookedForGuests(ctx context.Context) (hour, day int, err error) {
	return b.stock.Booked(ctx, pool.OfGuests)
}

// SetChooser sets the chooser of the providers. It must be called before the first bid. Without a
// chooser, the policy of every order is worth.Ordered.
func (b *Buyer) SetChooser(c Chooser) { b.scheduler.chooser = c }

// SetProviders replaces the providers. The policy worth.Ordered tries them in this order. An entry whose Provider value is unchanged keeps its slots and its state. This replica still
// collects orders at a removed provider, including orders that it adopts from other replicas.
func (b *Buyer) SetProviders(entries []Entry) {
	for _, e := range entries {
		b.callbacks.secrets.Remember(e.Provider.Name(), e.Callbacks.Secrets)
	}
	b.accounts.replace(entries)
}

// Request bids for a slot and returns immediately. When the bid wins a slot, the buyer calls onSlot
// with the slot, exactly once and in a new goroutine. The rules of Admit apply to the bids, to the
// errors that onSlot gets, and to freeing the slot. A pending request needs no goroutine.
func (b *Buyer) Request(bid Bid, onSlot func(*Slot, error)) *Request {
	return b.scheduler.request(bid, onSlot)
}

// Admit waits for a slot at the provider that the bid's policy chooses, even while that provider is
// full. With the policy worth.Ordered, this is the first provider that is up. The slot goes to the pending request with the best bid. But of fairTurn slots, one goes to the oldest
// request. If there is no provider, Admit returns ErrNoProvider; if ctx ends, it returns ctx's
// error. A caller that waits for a long time should cancel the wait and bid again with new figures.
// The caller must pass the slot to Buy or free it.
func (b *Buyer) Admit(ctx context.Context, bid Bid) (*Slot, error) {
	return b.scheduler.admit(ctx, bid)
}

// Buy starts a goroutine that places an order at the slot's provider and then runs the order. Buy
// returns when the order is placed or refused. Its errors:
//
//   - ErrBusy: all replicas together have the maximum number of orders at the provider.
//   - *BudgetError: a budget is used up.
//   - *pool.BoundedError: the last orders of the identity failed.
//   - ErrDepth: the stock has enough tokens and orders, or buying is paused.
//   - ErrReal: the target buys only from a simulated provider.
//
// If Buy returns an error, it has freed the slot and removed the reservations. If Redis does not
// answer, the buyer removes the reservations later. When a placed order ends, its goroutine calls
// onEnd with the result.
//
// When ctx ends, the buyer removes an order that was not submitted, and leaves a submitted order in
// the journal.
func (b *Buyer) Buy(ctx context.Context, slot *Slot, spec Spec, onEnd func(Result)) error {
	return b.orders.start(ctx, slot, spec, onEnd)
}

// Adopt takes over the orders with expired leases. Each order runs in a new goroutine, which stops
// when ctx ends. The argument limit is the longest duration of the search; 0 = no limit. Each
// goroutine calls onEnd with its result. An error means that Redis did not answer for some orders.
func (b *Buyer) Adopt(ctx context.Context, limit time.Duration, onEnd func(captcha.ID, Result)) error {
	search, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		search, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	adopted, err := b.recovery.adopt(search)
	for _, o := range adopted {
		if !b.orders.runAdopted(ctx, o, onEnd) {
			b.recovery.abandon(ctx, o)
		}
	}
	return err
}

// Wait waits until no order is in flight at this replica. The caller must first cancel the contexts
// of the orders.
func (b *Buyer) Wait() error { return b.orders.group.Wait() }

// Report adds a caller's report on a token to a queue. The argument age is the token's age. The
// buyer passes the report to the token's provider in the background, but not after the provider's
// report window has ended. Report never blocks.
func (b *Buyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	b.reports.add(report{provider, task, t, time.Now().Add(-age), accepted})
}

// Providers returns the states of the configured providers. While Redis does not answer,
// InFlight counts only this replica's orders.
func (b *Buyer) Providers(ctx context.Context, at time.Time) []Status {
	names, list := b.accounts.list(at)
	if counts, err := b.stock.InFlight(ctx, names); err == nil && len(counts) == len(list) {
		for i, n := range counts {
			if n >= 0 {
				list[i].InFlight = n
				continue
			}
			// The Redis node with this provider's permits does not answer.
			if kind := list[i].State.Kind; kind == provider.StateOK || kind == provider.StateBusy {
				list[i].State.Kind = provider.StateDown
				list[i].State.Reason = "the count of its orders is on a redis node that cannot be used"
			}
		}
	}
	return list
}

// Pace returns the first wait and the poll interval of the provider that would get an order now.
// The results are zero if no provider is configured.
func (b *Buyer) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	likely := b.accounts.nextAccount()
	if likely == nil {
		return 0, 0
	}
	return likely.Pace(t)
}

// Ended handles the message of a replica that a callback has ended an order. The argument outcome
// is pool.Solved or the code of the failure.
func (b *Buyer) Ended(order pool.Ref, outcome string) { b.orders.endedByCallback(order, outcome) }

// Stranded lists the paid tasks whose account is not configured, grouped by provider.
func (b *Buyer) Stranded() []Stranded { return b.recovery.list() }

// Callback handles a provider's message that a task ended. It counts and drops an invalid message.
// The only error is ErrNotKept: neither Redis nor the disk stored the callback, so the provider
// should retry. The end of ctx does not interrupt Callback.
func (b *Buyer) Callback(ctx context.Context, c Callback) error { return b.callbacks.handle(ctx, c) }

// OpenDeadLetters opens the directory of the dead letters and finds the dead letters of an earlier
// run.
func (b *Buyer) OpenDeadLetters() error { return b.replay.open() }

// DeadLetters lists the dead letters without their tokens. If it also returns an error, the list
// contains only the readable dead letters.
func (b *Buyer) DeadLetters() ([]spool.Summary, error) { return b.callbacks.kept.Show(time.Now()) }

// DeadLetterCount returns the number of dead letters.
func (b *Buyer) DeadLetterCount() int { return b.callbacks.kept.Count() }

// DeadLettersSetAside returns the number of dead letters that were set aside because they could not
// be read.
func (b *Buyer) DeadLettersSetAside() int { return b.callbacks.kept.SetAside() }

// Replay retries all dead letters. It tries the letters of each identity from the oldest to the
// newest. A failed letter does not stop other letters; Replay returns an error only if all letters
// failed. One replay runs at a time.
func (b *Buyer) Replay(ctx context.Context) (Replayed, error) { return b.replay.run(ctx) }
