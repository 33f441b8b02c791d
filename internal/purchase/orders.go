package purchase

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
)

// mostOrders bounds the goroutines that see orders through. Normally the providers'
// concurrency is reached long before.
const mostOrders = 4096

// orders are those that this replica sees through. It is safe for concurrent use.
type orders struct {
	*base
	accounts *accounts
	placer   *placer
	group    errgroup.Group // their goroutines

	mu   sync.Mutex
	held map[pool.Ref]*Order
}

func newOrders(b *base, as *accounts, p *placer) *orders {
	ords := &orders{base: b, accounts: as, placer: p, held: map[pool.Ref]*Order{}}
	ords.group.SetLimit(mostOrders)
	return ords
}

// start places an order and sees it through; see Buyer.Buy.
func (ords *orders) start(ctx context.Context, slot *Slot, spec Spec, ended func(Result)) error {
	placed := make(chan error, 1)
	started := ords.group.TryGo(func() error {
		ords.run(ctx, slot, &spec, placed, ended)
		return nil
	})
	if !started {
		slot.Free()
		return fmt.Errorf("%w: %d orders are under way here", ErrBusy, mostOrders)
	}
	return <-placed
}

// run is the life of a bought order's goroutine.
func (ords *orders) run(ctx context.Context, slot *Slot, spec *Spec, placed chan<- error, ended func(Result)) {
	defer func() {
		// errgroup lets a panic end the daemon.
		if cause := recover(); cause != nil {
			panics.Log(ords.log, "panic while buying", cause, "target", spec.Target)
			slot.Free()
			select {
			case placed <- fmt.Errorf("panic while placing an order: %v", cause):
			default: // it was placed
			}
		}
	}()
	o, err := ords.placer.place(ctx, slot, *spec)
	spec.Image = nil // from here on only the order has it
	placed <- err
	if err == nil {
		ended(ords.collect(ctx, o))
	}
}

// goOn sees an adopted order through; false where as many are under way as may be.
func (ords *orders) goOn(ctx context.Context, o *Order, ended func(captcha.ID, Result)) (started bool) {
	return ords.group.TryGo(func() error {
		ords.contain(func() { ended(o.Identity, ords.collect(ctx, o)) })
		return nil
	})
}

// renewEvery leaves room for two renewals that fail within a lease.
const renewEvery = 1500 * time.Millisecond

// hold lets the orders renew the order's lease and end its waiting.
func (ords *orders) hold(o *Order) {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	ords.held[o.Ref] = o
}

func (ords *orders) unhold(o *Order) {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	delete(ords.held, o.Ref)
}

// renew renews the leases of the orders that this replica works on, and ends the
// work on those that are not its own any more.
func (ords *orders) renew(ctx context.Context) {
	ords.mu.Lock()
	orders := make([]pool.Ref, 0, len(ords.held))
	for ref := range ords.held {
		orders = append(orders, ref)
	}
	ords.mu.Unlock()
	if len(orders) == 0 {
		return
	}
	lost, err := ords.stock.Renew(ctx, orders)
	if err != nil {
		ords.log.Debug("leases not renewed", "orders", len(orders), "err", err)
	}
	for _, ref := range lost {
		// One that is submitting becomes this replica's again with its task.
		if o := ords.holds(ref); o != nil && !o.submitting.Load() {
			o.finish(Result{Outcome: Elsewhere, Err: errElsewhere})
		}
	}
}

// holds finds an order that this replica works on, nil for none.
func (ords *orders) holds(ref pool.Ref) *Order {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	return ords.held[ref]
}

// callbackArrived notes that a callback about an order came to this replica.
func (ords *orders) callbackArrived(order pool.Ref) {
	if o := ords.holds(order); o != nil {
		o.arrived.Store(true)
	}
}

// endedByCallback takes notice that an order ended by a callback at some replica, and how:
// pool.Solved, or the code of its failure.
func (ords *orders) endedByCallback(order pool.Ref, how string) {
	o := ords.holds(order)
	if o == nil {
		return
	}
	if o.called {
		ords.accounts.called(o.account, true)
	}
	n := readMessage(how)
	o.finish(endOf(pool.Bought, n.news).result(o, n))
}

// foreign sorts the orders that this replica does not work on by identity.
func (ords *orders) foreign(refs []pool.Ref) map[captcha.ID][]string {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	byIdentity := map[captcha.ID][]string{}
	for _, ref := range refs {
		if ords.held[ref] == nil {
			byIdentity[ref.Identity] = append(byIdentity[ref.Identity], ref.Order)
		}
	}
	return byIdentity
}
