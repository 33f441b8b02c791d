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

// base is what the parts of a buyer share.
type base struct {
	stock   Orders
	observe Observer
	log     *slog.Logger
}

// letGo leaves orders that nobody works on here to other replicas, at once if Redis
// answers, else when their leases end.
func (b *base) letGo(ctx context.Context, orders ...pool.Ref) {
	_ = withTimeout(ctx, func(ctx context.Context) error { return b.stock.LetGo(ctx, orders) })
}

// NewBuyer makes a buyer without providers. folder is the folder for callbacks
// that cannot be stored. observe must not be nil.
func NewBuyer(stock Orders, folder string, observe Observer, log *slog.Logger) *Buyer {
	b := &base{stock: stock, observe: observe, log: log}
	as, ls := newAccounts(b), newLives()
	placer := &placer{base: b, accounts: as, lives: ls}
	orders := newOrders(b, as, placer)
	cs := &callbacks{
		base: b, accounts: as, orders: orders, lives: ls,
		secrets: secrets{of: map[string][]captcha.Secret{}}, arrivals: arrivals{at: map[pool.Ref]time.Time{}}, kept: spool.NewLetters(folder),
	}
	return &Buyer{
		base: b, accounts: as, scheduler: newScheduler(as), placer: placer, orders: orders,
		recovery: newRecovery(b, as, placer, orders, ls), reports: newReports(b, as), callbacks: cs, replay: newReplay(b, cs),
	}
}

// SetBudget sets how many solves may be bought over all targets and replicas
// within 24 h; 0 = no cap.
func (b *Buyer) SetBudget(perDay int) { b.placer.setBudget(perDay) }

// Booked tells how much of that budget is used, and what it is.
func (b *Buyer) Booked(ctx context.Context) (used, perDay int, err error) {
	perDay = b.placer.budget()
	if perDay == 0 {
		return 0, 0, nil
	}
	_, used, err = b.stock.Booked(ctx, pool.Overall)
	return used, perDay, err
}

// BookedForGuests tells how much of the budget over all guests was used in the last
// 60 min and 24 h.
func (b *Buyer) BookedForGuests(ctx context.Context) (hour, day int, err error) {
	return b.stock.Booked(ctx, pool.OfGuests)
}

// SetProviders replaces the list, in the order in which providers are tried.
// A provider that stays, the same value, keeps its slots and what is known of
// it; orders at one that goes are finished with it, also those that other replicas
// placed there.
func (b *Buyer) SetProviders(entries []Entry) {
	for _, e := range entries {
		b.callbacks.secrets.remember(e.Provider.Name(), e.Callbacks.Secrets)
	}
	b.accounts.set(entries)
}

// Request bids for a slot and returns at once. When the slot is there, granted is called
// with it, once, in a goroutine of its own; see Admit for the order, the errors and the
// caller's duty. Of many requests that wait each costs an entry, not a goroutine.
func (b *Buyer) Request(bid Bid, granted func(*Slot, error)) *Request {
	return b.scheduler.request(bid, granted)
}

// Admit waits for a slot at the first provider that is ready; while that one is
// full it waits for it, while it is down the next one is asked. Where several
// wait, the slot goes to the best bid, and every fairTurn-th one to who has waited
// longest. It fails with ErrNoProvider where the list is empty and with ctx's
// error; who waits long should give up, and come back with a bid of the day. The
// caller must hand the slot to Buy or free it.
func (b *Buyer) Admit(ctx context.Context, bid Bid) (*Slot, error) {
	return b.scheduler.admit(ctx, bid)
}

// Buy places an order at the slot's provider and sees it through in a goroutine of its
// own, which is there before the order is: none is ever left without. It returns when
// the order stands, or was refused: with ErrBusy where all replicas together have as
// many orders at the provider as it may have, a *BudgetError where a budget is used up,
// a
// *pool.HeldError if the identity's last orders failed, and ErrDepth where the depth
// sentence refuses or buying is paused. With any error
// nothing is left behind; the slot is freed in any case. How an order that stood ended
// is told to ended, from that goroutine.
//
// The order lives under ctx: when that ends nothing more is bought, and what is under
// way stays in the journal.
func (b *Buyer) Buy(ctx context.Context, slot *Slot, spec Spec, ended func(Result)) error {
	return b.orders.start(ctx, slot, spec, ended)
}

// Adopt takes over the orders whose replicas have not renewed their leases and sees
// each through in a goroutine of its own, which ends with ctx. The search for them ends
// after within; 0 = with ctx. How each ended is told to ended. An error says that Redis
// did not answer for some.
func (b *Buyer) Adopt(ctx context.Context, within time.Duration, ended func(captcha.ID, Result)) error {
	search, cancel := ctx, context.CancelFunc(func() {})
	if within > 0 {
		search, cancel = context.WithTimeout(ctx, within)
	}
	defer cancel()
	adopted, err := b.recovery.adopt(search)
	for _, o := range adopted {
		if !b.orders.goOn(ctx, o, ended) {
			b.recovery.abandon(ctx, o)
		}
	}
	return err
}

// Wait returns when no order is under way here any more: a while after the contexts
// that they live under have ended.
func (b *Buyer) Wait() error { return b.orders.group.Wait() }

// Report passes a caller's word on a token of the given age on to its provider,
// in the background and as long as the provider takes it. It never blocks.
func (b *Buyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	b.reports.add(report{provider, task, t, time.Now().Add(-age), accepted})
}

// Providers tells how the providers of the list are doing. While Redis does
// not answer, InFlight counts this replica's orders alone.
func (b *Buyer) Providers(ctx context.Context, at time.Time) []Status {
	names, list := b.accounts.list(at)
	if counts, err := b.stock.InFlight(ctx, names); err == nil && len(counts) == len(list) {
		for i, n := range counts {
			if n >= 0 {
				list[i].InFlight = n
				continue
			}
			// Its places are in a part of Redis that cannot be used, while others can.
			if kind := list[i].State.Kind; kind == provider.StateOK || kind == provider.StateBusy {
				list[i].State.Kind = provider.StateDown
				list[i].State.Reason = "the count of its orders is on a redis node that cannot be used"
			}
		}
	}
	return list
}

// Pace is the first wait and the poll interval of the provider that would be
// asked now; zero where there is none.
func (b *Buyer) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	likely := b.accounts.likely()
	if likely == nil {
		return 0, 0
	}
	return likely.Pace(t)
}

// Concurrency is the most orders at once, over all targets and replicas, at the
// provider that would be asked now; zero where there is none.
func (b *Buyer) Concurrency() int {
	likely := b.accounts.likely()
	if likely == nil {
		return 0
	}
	return b.accounts.terms(likely).limit
}

// Ended is told that an order ended by a callback at some replica, and how:
// pool.Solved, or the code of its failure.
func (b *Buyer) Ended(order pool.Ref, how string) { b.orders.endedByCallback(order, how) }

// Stranded lists the paid tasks that nobody can be asked about, by provider.
func (b *Buyer) Stranded() []Stranded { return b.recovery.list() }

// Callback takes a provider's word on the end of a task. Whatever is wrong with
// it is counted and harmless; the one error is ErrNotKept: neither Redis nor the
// disk took it, and the provider should try again. It does not end with ctx.
func (b *Buyer) Callback(ctx context.Context, c Callback) error { return b.callbacks.take(ctx, c) }

// OpenDeadLetters makes the folder of the dead letters ready and finds what an earlier
// run left there.
func (b *Buyer) OpenDeadLetters() error { return b.replay.open() }

// DeadLetters lists the callbacks that could not be stored yet, without their
// tokens; with an error, those that can be read.
func (b *Buyer) DeadLetters() ([]spool.Summary, error) { return b.callbacks.kept.Show(time.Now()) }

// DeadLetterCount is how many there are.
func (b *Buyer) DeadLetterCount() int { return b.callbacks.kept.Count() }

// DeadLettersSetAside is how many files could not be read and wait for a person.
func (b *Buyer) DeadLettersSetAside() int { return b.callbacks.kept.SetAside() }

// Replay tries all dead letters again, those of one identity oldest first. What
// Redis does not take keeps no other dead letter from its turn: only where it took none
// of those that were tried is that the error. One replay is made at a time.
func (b *Buyer) Replay(ctx context.Context) (Replayed, error) { return b.replay.run(ctx) }
