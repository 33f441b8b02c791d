package purchase

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/crash"
	"poold/internal/permits"
	"poold/internal/pool"
)

const (
	// retryEvery is the interval between two attempts to remove leftovers.
	retryEvery = time.Second
	// turnEvery is the time between two submits at an account that refuses every submit. turnSpread
	// randomises the time at which a replica submits next, so that no replica is always the first.
	turnEvery, turnSpread = 5 * time.Second, 500 * time.Millisecond
	// budgetWindow is how long a solve counts in a budget.
	budgetWindow = 24 * time.Hour
)

// placer creates orders in Redis, with their permits and budget reservations. It also removes what
// failed placements left in Redis. It is safe for concurrent use.
type placer struct {
	*base
	accounts  *accounts
	lifetimes *lifetimes

	mu        sync.Mutex
	perDay    int        // the overall budget; 0 = no limit
	leftovers []leftover // orders that must be removed once more
}

func (p *placer) setBudget(perDay int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.perDay = perDay
}

func (p *placer) budget() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.perDay
}

// place acquires a permit at the slot's provider, reserves a solve in each shared budget, and
// stores the order in the journal. It returns the same errors as Buy. If it returns an error, the
// slot is free and the reservations are removed. If it succeeds, the caller must call collect.
//
// The method place checks ctx only before the first step, because a cancelled step may still take
// effect in Redis. All steps together take a few seconds at most.
func (p *placer) place(ctx context.Context, slot *Slot, spec Spec) (*Order, error) {
	if err := ctx.Err(); err != nil {
		slot.Free()
		return nil, err
	}
	terms := p.accounts.termsOf(slot.account)
	if spec.SimulatedOnly && !terms.simulated {
		slot.Free()
		return nil, ErrReal
	}
	o := newOrder(slot, spec, terms)
	p.lifetimes.setLife(spec.ID, spec.Lifetime)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	at, err := p.acquire(ctx, bounded, o, terms.limit)
	if err != nil {
		return nil, err
	}
	// Redis may execute a step after this call has given up. After the time notAfter, the step has no
	// effect.
	notAfter := at.After(stockTime + clockSlack)
	full, err := p.reserveBudgets(bounded, o, notAfter)
	switch {
	case err != nil:
		return nil, p.rollbackUnanswered(ctx, o, fmt.Errorf("reserving in a budget: %w", err))
	case full != nil:
		p.observe.BudgetUsedUp(full.Of, spec.Target)
		p.releaseUnplaced(ctx, o)
		return nil, full
	}
	placing, err := p.stock.Place(bounded, pool.Order{
		Ref: o.Ref, Guest: spec.isGuest(), Depth: spec.Depth, Margin: spec.Margin, Lead: spec.Lead, TTL: longestFlight(o.account),
		Price: o.price, Facts: o.facts(),
		PerHour: spec.PerHour, PerDay: spec.PerDay, NotAfter: notAfter,
	})
	switch {
	case err != nil:
		return nil, p.rollbackUnanswered(ctx, o, fmt.Errorf("placing an order: %w", err))
	case placing.BudgetWait > 0:
		p.observe.BudgetUsedUp("", spec.Target)
		p.releaseUnplaced(ctx, o)
		return nil, &BudgetError{RetryAfter: placing.BudgetWait}
	case placing.Bounded != nil:
		p.releaseUnplaced(ctx, o)
		return nil, placing.Bounded
	case !placing.Placed:
		p.releaseUnplaced(ctx, o)
		return nil, ErrDepth
	}
	o.placed = time.Now()
	if slot.placed != nil {
		slot.placed()
	}
	crash.At("placed")
	return o, nil
}

// acquire takes a permit at the slot's provider. It returns the time, on Redis' clock, at which
// Redis decided. It returns the same errors as Buy. If it returns an error, the slot is free.
func (p *placer) acquire(ctx, bounded context.Context, o *Order, limit int) (at pool.RedisTime, err error) {
	name := o.account.Name()
	permit, err := p.stock.Acquire(bounded, o.provider, o.Ref, limit, longestFlight(o.account)+placeMargin, sinceAnswered(o.account))
	if err != nil {
		return 0, p.rollbackUnanswered(ctx, o, fmt.Errorf("acquiring a permit at %s: %w", name, err))
	}
	o.refusals = permit.Refusals
	switch {
	case permit.Wait > 0:
		p.accounts.pauseOrders(o.account, permit.Wait+backoff.UpTo(turnSpread))
		o.slot.Free()
		return 0, fmt.Errorf("%s: %w: it is probed by one order at a time", name, ErrBusy)
	case !permit.OK:
		o.slot.freeFull()
		return 0, fmt.Errorf("%s: %w: all replicas together have %d orders there", name, ErrBusy, limit)
	case permit.Refusals >= permits.MostRefusals:
		p.accounts.pauseOrders(o.account, turnEvery+2*turnSpread) // leaves the next turn to another replica
	}
	if o.slot.used != nil {
		o.slot.used()
	}
	return permit.At, nil
}

// billionths converts a price of the file to billionths of the currency.
func billionths(price float64) int64 {
	if price < 0 {
		return pool.PriceUnknown
	}
	return int64(math.Round(price * currency))
}

// newOrder returns an order that is not placed yet.
func newOrder(slot *Slot, spec Spec, terms accountTerms) *Order {
	o := &Order{
		Ref:  pool.Ref{Identity: spec.ID, Order: rand.Text()},
		spec: spec, slot: slot, account: slot.account, provider: slot.account.Name(), accountID: terms.id, choice: slot.choice,
		timeout: slot.account.Timeout(), deadline: time.Now().Add(longestFlight(slot.account)),
		delay: terms.callbacks.Delay, price: billionths(terms.price(spec.Identity.Type)),
	}
	o.pingback = terms.callbacks.address(o.provider, o.Ref)
	o.hasCallback = o.pingback != ""
	o.fallback = terms.callbacks.fallbackTime(o.timeout, spec.Lifetime-spec.Margin)
	return o
}

// reserveBudgets reserves a solve in each shared budget of the order. If a budget is used up, the
// result full describes the first such budget.
func (p *placer) reserveBudgets(ctx context.Context, o *Order, notAfter pool.RedisTime) (full *BudgetError, err error) {
	for _, b := range []struct {
		of   pool.Budget
		caps pool.Caps
	}{
		{pool.Overall, pool.Caps{PerDay: p.budget()}}, {pool.OfGuests, o.spec.Guests},
	} {
		if b.caps == (pool.Caps{}) {
			continue
		}
		o.booked = append(o.booked, b.of)
		wait, err := p.stock.Book(ctx, b.of, o.Ref, b.caps, notAfter)
		if err == nil && wait > 0 {
			_ = backoff.Sleep(ctx, budgetRetry)
			wait, err = p.stock.Book(ctx, b.of, o.Ref, b.caps, notAfter)
		}
		if err != nil {
			return nil, err
		}
		if wait > 0 {
			return &BudgetError{Of: b.of, RetryAfter: wait}, nil
		}
	}
	return nil, nil
}

// rollbackUnanswered removes an order after a step that Redis did not answer. It removes the order now
// and once more later, because Redis may still execute the step in between.
func (p *placer) rollbackUnanswered(ctx context.Context, o *Order, cause error) error {
	p.rollback(ctx, o)
	p.removeLater(o)
	return cause
}

// releaseUnplaced frees the slot and the reservations of an order that was not placed. If Redis
// does not answer, removeLeftovers removes the reservations later.
func (p *placer) releaseUnplaced(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := p.release(ctx, o.provider, o.Ref, o.booked); err != nil {
		p.log.Debug("reservations are not returned", "target", o.spec.Target, "provider", o.account.Name(), "err", err)
		p.removeLater(o)
	}
}

// rollback removes an order that was not submitted, whichever steps of its placement succeeded, and
// frees its slot. If Redis does not answer, the order and its reservations expire.
func (p *placer) rollback(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := p.remove(ctx, o.provider, o.Ref, o.booked); err != nil {
		p.log.Debug("an order is not removed", "target", o.spec.Target, "provider", o.account.Name(), "err", err)
	}
}

// remove removes an order that was not bought, and then its reservations. If the process dies between
// the two steps, Redis counts one permit too many for a while. In the reverse order, Redis could count
// one permit too few.
func (p *placer) remove(ctx context.Context, provider string, order pool.Ref, booked []pool.Budget) error {
	var how pool.EndResult
	err := withTimeout(ctx, func(ctx context.Context) (err error) {
		how, err = p.stock.Fail(ctx, pool.Failure{Ref: order})
		return err
	})
	if err != nil || how == pool.NotOwner {
		return err
	}
	return p.release(ctx, provider, order, booked)
}

// release returns an order's permit and its budget reservations.
func (p *placer) release(ctx context.Context, provider string, order pool.Ref, booked []pool.Budget) error {
	for _, of := range booked {
		err := withTimeout(ctx, func(ctx context.Context) error {
			return p.stock.Refund(ctx, of, order)
		})
		if err != nil {
			return err
		}
	}
	return withTimeout(ctx, func(ctx context.Context) error {
		return p.stock.ReleaseUnplaced(ctx, provider, order)
	})
}

// leftover is an order with a step that Redis did not answer. After a hang, Redis may execute this
// step although the order was already removed. Without a second removal, the order would then count
// until it expires.
type leftover struct {
	order *Order
	once  bool // the order was removed once; the second removal undoes a late step
}

// removeLater adds an order to the leftovers.
func (p *placer) removeLater(o *Order) {
	o.spec.Image = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leftovers = append(p.leftovers, leftover{order: o})
}

// removeLeftovers removes every leftover twice, unless the leftover has expired in Redis. A
// reservation in a budget expires after a day.
func (p *placer) removeLeftovers(ctx context.Context) {
	p.mu.Lock()
	due := p.leftovers
	p.leftovers = nil
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leftovers = append(due, p.leftovers...)
	}()
	due = slices.DeleteFunc(due, func(l leftover) bool {
		forgotten := l.order.deadline
		if len(l.order.booked) > 0 {
			forgotten = forgotten.Add(budgetWindow)
		}
		return time.Now().After(forgotten)
	})
	for i := range due {
		l := &due[i]
		if p.remove(ctx, l.order.provider, l.order.Ref, l.order.booked) != nil {
			break // Redis still does not answer
		}
		if l.once {
			l.order = nil
		}
		l.once = true
	}
	due = slices.DeleteFunc(due, func(l leftover) bool { return l.order == nil })
}
