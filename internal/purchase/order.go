package purchase

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"poold/internal/pool"
)

const (
	// callTime bounds a call to the provider. It is longer than the client's
	// own deadline and only there for the case that this one fails, because
	// cutting a submit makes an order of unknown fate.
	callTime = 20 * time.Second
	// stockTime bounds one step in Redis, with the re-sends below it.
	stockTime = 3 * time.Second
	// placeMargin lets a place at the provider outlive its order, so that a
	// crash counts too many rather than too few.
	placeMargin = 10 * time.Second
)

// Order is one purchase under way. It belongs to whoever calls Collect, which
// may be called once.
type Order struct {
	id     string // 128 random bits or more
	spec   Spec
	slot   *Slot
	seller *seller
	// deadline is when Redis forgets the order, or a little before.
	deadline time.Time

	placed time.Time // when Place was answered
	// Set by Collect, in this order.
	submitted time.Time // just before the submit
	answered  time.Time // when the task id came
	task      string    // the provider's id
	unsolved  time.Time // latest moment at which the task is known to be unsolved
}

// lifetime is how long an order may be under way: the provider's own limit,
// and a call before and after it.
func lifetime(p Solver) time.Duration { return p.Timeout() + 2*callTime }

// Place takes a place at the slot's provider, then creates the order beside
// the stock. It answers ErrBusy where all replicas together have as many
// orders at the provider as it may have, and ErrDepth, with the stock, where
// the depth sentence refuses or buying is paused. With any error nothing is
// left behind and the slot is freed; without one Collect must follow.
//
// An end of ctx is noticed before the first step only: a step in Redis that is
// cut leaves behind what nobody knows of. The steps take a few seconds at most.
func (d *Desk) Place(ctx context.Context, slot *Slot, spec Spec) (*Order, pool.Stock, error) {
	if err := ctx.Err(); err != nil {
		slot.Free()
		return nil, pool.Stock{}, err
	}
	ttl := lifetime(slot.seller)
	o := &Order{
		id: rand.Text(), spec: spec, slot: slot, seller: slot.seller,
		deadline: time.Now().Add(ttl),
	}
	d.mu.Lock()
	limit := o.seller.limitLocked()
	d.mu.Unlock()

	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	free, _, err := d.stock.Reserve(bounded, o.seller.Name(), o.id, limit, ttl+placeMargin)
	if err != nil {
		d.undo(ctx, o)
		d.leave(o)
		return nil, pool.Stock{}, fmt.Errorf("reserving a place at %s: %w", o.seller.Name(), err)
	}
	if !free {
		d.mu.Lock()
		slot.freeLocked(time.Now().Add(fullFor))
		d.mu.Unlock()
		return nil, pool.Stock{}, fmt.Errorf("%s: %w: all replicas together have %d orders there", o.seller.Name(), ErrBusy, limit)
	}
	placed, stock, err := d.stock.Place(bounded, pool.Order{
		ID: o.id, Identity: spec.ID, Provider: o.seller.Name(),
		Depth: spec.Depth, Margin: spec.Margin, Lead: spec.Lead, TTL: ttl,
	})
	if err != nil {
		d.undo(ctx, o)
		d.leave(o)
		return nil, pool.Stock{}, fmt.Errorf("placing an order: %w", err)
	}
	if !placed {
		d.giveBack(ctx, o)
		return nil, stock, ErrDepth
	}
	o.placed = time.Now()
	return o, stock, nil
}

// giveBack frees the slot of an order that the stock refused, and its place.
// Where Redis does not answer, the place is forgotten in time.
func (d *Desk) giveBack(ctx context.Context, o *Order) {
	defer o.slot.Free()
	err := attempt(ctx, func(ctx context.Context) error {
		return d.stock.Release(ctx, o.seller.Name(), o.id)
	})
	if err != nil {
		d.log.Debug("place not given back", "target", o.spec.Target, "provider", o.seller.Name(), "err", err)
	}
}

// undo takes back an order that was not submitted, as far as it got, and frees
// its slot. Where Redis does not answer, what is left is forgotten in time.
func (d *Desk) undo(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := d.takeBack(ctx, o); err != nil {
		d.log.Debug("order not taken back", "target", o.spec.Target, "provider", o.seller.Name(), "err", err)
	}
}

// takeBack removes an order that was not submitted, then its place: a place
// without an order counts too many, an order without a place too few.
func (d *Desk) takeBack(ctx context.Context, o *Order) error {
	err := attempt(ctx, func(ctx context.Context) error {
		_, err := d.stock.Fail(ctx, o.spec.ID, o.id, false)
		return err
	})
	if err != nil {
		return err
	}
	return attempt(ctx, func(ctx context.Context) error {
		return d.stock.Release(ctx, o.seller.Name(), o.id)
	})
}
