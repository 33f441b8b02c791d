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

// maxOrders is the maximum number of goroutines that run orders. The providers' concurrency
// normally keeps the number far lower.
const maxOrders = 4096

// The type orders runs the orders of this replica. It is safe for concurrent use.
type orders struct {
	*base
	accounts *accounts
	placer   *placer
	group    errgroup.Group // goroutines of the orders

	mu       sync.Mutex
	inFlight map[pool.Ref]*Order
}

func newOrders(b *base, as *accounts, p *placer) *orders {
	ords := &orders{base: b, accounts: as, placer: p, inFlight: map[pool.Ref]*Order{}}
	ords.group.SetLimit(maxOrders)
	return ords
}

// start places an order and runs it; see Buyer.Buy.
func (ords *orders) start(ctx context.Context, slot *Slot, spec Spec, onEnd func(Result)) error {
	placed := make(chan error, 1)
	started := ords.group.TryGo(func() error {
		ords.run(ctx, slot, &spec, placed, onEnd)
		return nil
	})
	if !started {
		slot.Free()
		return fmt.Errorf("%w: this replica has %d orders in flight", ErrBusy, maxOrders)
	}
	return <-placed
}

// run places a new order and runs it until it ends. The caller starts a goroutine for each call.
func (ords *orders) run(ctx context.Context, slot *Slot, spec *Spec, placed chan<- error, onEnd func(Result)) {
	defer func() {
		// Without this recover, package errgroup would let a panic end the daemon.
		if cause := recover(); cause != nil {
			panics.Log(ords.log, "panic while buying", cause, "target", spec.Target)
			slot.Free()
			select {
			case placed <- fmt.Errorf("panic while placing an order: %v", cause):
			default: // the order was placed before the panic
			}
		}
	}()
	o, err := ords.placer.place(ctx, slot, *spec)
	spec.Image = nil // from now on only the order refers to the picture
	placed <- err
	if err == nil {
		onEnd(ords.collect(ctx, o))
	}
}

// runAdopted runs an adopted order. It returns false if this replica already runs maxOrders orders.
func (ords *orders) runAdopted(ctx context.Context, o *Order, onEnd func(captcha.ID, Result)) (started bool) {
	return ords.group.TryGo(func() error {
		ords.contain(func() { onEnd(o.Identity, ords.collect(ctx, o)) })
		return nil
	})
}

// renewEvery is the interval between two renewals of a lease. A lease survives two failed renewals
// in a row.
const renewEvery = 1500 * time.Millisecond

// register adds an order to the orders in flight, so that its lease is renewed and a callback can
// end the order.
func (ords *orders) register(o *Order) {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	ords.inFlight[o.Ref] = o
}

func (ords *orders) unhold(o *Order) {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	delete(ords.inFlight, o.Ref)
}

// renew renews the leases of this replica's orders, and stops orders whose lease another replica
// now has.
func (ords *orders) renew(ctx context.Context) {
	ords.mu.Lock()
	orders := make([]pool.Ref, 0, len(ords.inFlight))
	for ref := range ords.inFlight {
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
		// An order whose submit is in progress gets its lease back when its task id is stored.
		if o := ords.ownOrder(ref); o != nil && !o.submitting.Load() {
			o.finish(Result{Outcome: Elsewhere, Err: errElsewhere})
		}
	}
}

// ownOrder returns an order of this replica, or nil.
func (ords *orders) ownOrder(ref pool.Ref) *Order {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	return ords.inFlight[ref]
}

// callbackArrived records that a callback for an order arrived at this replica.
func (ords *orders) callbackArrived(order pool.Ref) {
	if o := ords.ownOrder(order); o != nil {
		o.arrived.Store(true)
	}
}

// endedByCallback stops an order that a callback ended at some replica. The argument outcome is
// pool.Solved or the code of the failure.
func (ords *orders) endedByCallback(order pool.Ref, outcome string) {
	o := ords.ownOrder(order)
	if o == nil {
		return
	}
	if o.hasCallback {
		ords.accounts.noteCallback(o.account, true)
	}
	n := readMessage(outcome)
	o.finish(endOf(pool.Bought, n.trigger).result(o, n))
}

// foreignOrders returns those given orders that this replica does not run, grouped by identity.
func (ords *orders) foreignOrders(refs []pool.Ref) map[captcha.ID][]string {
	ords.mu.Lock()
	defer ords.mu.Unlock()
	byIdentity := map[captcha.ID][]string{}
	for _, ref := range refs {
		if ords.inFlight[ref] == nil {
			byIdentity[ref.Identity] = append(byIdentity[ref.Identity], ref.Order)
		}
	}
	return byIdentity
}
