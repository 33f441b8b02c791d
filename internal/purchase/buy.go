package purchase

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

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
			ords.log.Error("panic while buying", "target", spec.Target, "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
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
		contain(ords.log, func() { ended(o.Identity, ords.collect(ctx, o)) })
		return nil
	})
}
