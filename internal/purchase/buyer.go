package purchase

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
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

	letters   deadLetters
	replaying chan struct{}            // holds one while letters are replayed
	stuck     map[captcha.ID]time.Time // since when Redis takes no letters of an identity; belongs to who replays

	lives *lives

	mu       sync.Mutex
	trouble  bool                        // with the folder of the letters; told once
	secrets  map[string][]captcha.Secret // of callbacks, by provider; also of those that went
	arrivals map[pool.Ref]time.Time      // of callbacks that could not be delivered: the first
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
	_ = attempt(ctx, func(ctx context.Context) error { return b.stock.LetGo(ctx, orders) })
}

// NewBuyer makes a buyer without providers. letters is the folder for callbacks
// that cannot be stored. observe must not be nil.
func NewBuyer(stock Orders, letters string, observe Observer, log *slog.Logger) *Buyer {
	b := &base{stock: stock, observe: observe, log: log}
	as, ls := newAccounts(b), &lives{of: map[captcha.ID]time.Duration{}}
	placer := &placer{base: b, accounts: as, lives: ls}
	orders := newOrders(b, as, placer)
	return &Buyer{
		base: b, accounts: as, scheduler: &scheduler{accounts: as}, placer: placer, orders: orders,
		recovery: newRecovery(b, as, placer, orders, ls), reports: newReports(b, as),
		letters: newDeadLetters(letters), replaying: make(chan struct{}, 1), stuck: map[captcha.ID]time.Time{}, lives: ls,
		secrets: map[string][]captcha.Secret{}, arrivals: map[pool.Ref]time.Time{},
	}
}

// SetBudget sets how many solves may be bought over all targets and replicas
// within 24 h; 0 = no cap.
func (d *Buyer) SetBudget(perDay int) { d.placer.setBudget(perDay) }

// Booked tells how much of that budget is used, and what it is.
func (d *Buyer) Booked(ctx context.Context) (used, perDay int, err error) {
	perDay = d.placer.budget()
	if perDay == 0 {
		return 0, 0, nil
	}
	used, err = d.stock.Booked(ctx)
	return used, perDay, err
}

// SetProviders replaces the list, in the order in which providers are tried.
// A provider that stays, the same value, keeps its slots and what is known of
// it; orders at one that goes are finished with it, also those that other replicas
// placed there.
func (d *Buyer) SetProviders(entries []Entry) {
	d.mu.Lock()
	for _, e := range entries {
		d.rememberLocked(e.Provider.Name(), e.Callbacks.Secrets)
	}
	d.mu.Unlock()
	d.accounts.set(entries)
}

// Admit waits for a slot at the first provider that is ready; while that one is
// full it waits for it, while it is down the next one is asked. Where several
// wait, the slot goes to the best bid, and every fairTurn-th one to who has waited
// longest. It fails with ErrNoProvider where the list is empty and with ctx's
// error; who waits long should give up, and come back with a bid of the day. The
// caller must hand the slot to Buy or free it.
func (d *Buyer) Admit(ctx context.Context, bid Bid) (*Slot, error) {
	return d.scheduler.admit(ctx, bid)
}

// Report passes a caller's word on a token of the given age on to its provider,
// in the background and as long as the provider takes it. It never blocks.
func (d *Buyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	d.reports.add(report{provider, task, t, time.Now().Add(-age), accepted})
}

// Providers tells how the providers of the list are doing. While Redis does
// not answer, InFlight counts this replica's orders alone.
func (d *Buyer) Providers(ctx context.Context, at time.Time) []Status {
	names, list := d.accounts.list(at)
	if counts, err := d.stock.InFlight(ctx, names); err == nil && len(counts) == len(list) {
		for i, n := range counts {
			if n >= 0 {
				list[i].InFlight = n
				continue
			}
			// Its places are in a part of Redis that cannot be used, while others can.
			if kind := list[i].State.Kind; kind == provider.StateOK || kind == provider.StateBusy {
				list[i].State.Kind = provider.StatePaused
				list[i].State.Reason = "the count of its orders is on a redis node that cannot be used"
			}
		}
	}
	return list
}

// Pace is the first wait and the poll interval of the provider that would be
// asked now; zero where there is none.
func (d *Buyer) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	likely := d.accounts.likely()
	if likely == nil {
		return 0, 0
	}
	return likely.Pace(t)
}

// Concurrency is the most orders at once, over all targets and replicas, at the
// provider that would be asked now; zero where there is none.
func (d *Buyer) Concurrency() int {
	likely := d.accounts.likely()
	if likely == nil {
		return 0
	}
	return d.accounts.terms(likely).limit
}

// Ended is told that an order ended by a callback at some replica, and how:
// pool.Solved, or the code of its failure.
func (d *Buyer) Ended(order pool.Ref, how string) { d.orders.told(order, how) }

// Stranded lists the paid tasks that nobody can be asked about, by provider.
func (d *Buyer) Stranded() []Stranded { return d.recovery.list() }
