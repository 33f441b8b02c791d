package purchase

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
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

// Buy places an order at the slot's provider and sees it through in a goroutine of its
// own, which is there before the order is: none is ever left without. It returns when
// the order stands, or was refused: with ErrBusy where all replicas together have as
// many orders at the provider as it may have, a *BudgetError where a budget is used up,
// and ErrDepth where the depth sentence refuses or buying is paused. With any error
// nothing is left behind; the slot is freed in any case. How an order that stood ended
// is told to ended, from that goroutine.
//
// The order lives under ctx: when that ends nothing more is bought, and what is under
// way stays in the journal.
func (d *Buyer) Buy(ctx context.Context, slot *Slot, spec Spec, ended func(Result)) error {
	return d.orders.start(ctx, slot, spec, ended)
}

func (ords *orders) start(ctx context.Context, slot *Slot, spec Spec, ended func(Result)) error {
	placed := make(chan error, 1)
	started := ords.group.TryGo(func() error {
		ords.run(ctx, slot, spec, placed, ended)
		return nil
	})
	if !started {
		slot.Free()
		return fmt.Errorf("%w: %d orders are under way here", ErrBusy, mostOrders)
	}
	return <-placed
}

// run is the life of a bought order's goroutine.
func (ords *orders) run(ctx context.Context, slot *Slot, spec Spec, placed chan<- error, ended func(Result)) {
	defer func() {
		// errgroup lets a panic end the daemon.
		if cause := recover(); cause != nil {
			ords.log.Error("panic while buying", "target", spec.Target, "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
			slot.Free()
			select {
			case placed <- fmt.Errorf("panic while placing an order: %v", cause):
			default: // it was placed
			}
		}
	}()
	o, err := ords.placer.place(ctx, slot, spec)
	placed <- err
	if err == nil {
		ended(ords.collect(ctx, o))
	}
}

// Adopt takes over the orders whose replicas have not renewed their leases and sees
// each through in a goroutine of its own, which ends with ctx. The search for them ends
// after within; 0 = with ctx. How each ended is told to ended. An error says that Redis
// did not answer for some.
func (d *Buyer) Adopt(ctx context.Context, within time.Duration, ended func(captcha.ID, Result)) error {
	search, cancel := ctx, context.CancelFunc(func() {})
	if within > 0 {
		search, cancel = context.WithTimeout(ctx, within)
	}
	defer cancel()
	adopted, err := d.recovery.adopt(search)
	for _, o := range adopted {
		if !d.orders.goOn(ctx, o, ended) {
			d.recovery.abandon(ctx, o)
		}
	}
	return err
}

// goOn sees an adopted order through; false where as many are under way as may be.
func (ords *orders) goOn(ctx context.Context, o *Order, ended func(captcha.ID, Result)) (started bool) {
	return ords.group.TryGo(func() error {
		contain(ords.log, func() { ended(o.Identity, ords.collect(ctx, o)) })
		return nil
	})
}

// Wait returns when no order is under way here any more: a while after the contexts
// that they live under have ended.
func (d *Buyer) Wait() error { return d.orders.group.Wait() }
