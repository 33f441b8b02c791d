package purchase

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"poold/internal/crash"
	"poold/internal/permits"
	"poold/internal/pool"
)

const (
	// retryEvery is how often leftovers are taken back.
	retryEvery = time.Second
	// turnEvery is the time between two submits at an account that refuses all of them.
	// turnSpread has the replicas ask for the next one at different times, so that none of
	// them is always the first.
	turnEvery, turnSpread = 5 * time.Second, 500 * time.Millisecond
	// budgetWindow is how long a solve counts in a budget.
	budgetWindow = 24 * time.Hour
)

// placer creates orders beside the stock, with their reservations, and takes back those
// that did not come about. It is safe for concurrent use.
type placer struct {
	*base
	accounts *accounts
	lives    *lives

	mu        sync.Mutex
	perDay    int        // the overall budget; 0 = none
	leftovers []leftover // orders to be taken back again
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

// place takes a place at the slot's provider, then one in each budget that the order
// shares with others, then creates the order beside the stock. Its errors are Buy's.
// With any of them nothing is left behind and the slot is freed; without one collect
// must follow.
//
// An end of ctx is noticed before the first step only: a step in Redis that is
// cut leaves behind what nobody knows of. The steps take a few seconds at most.
func (p *placer) place(ctx context.Context, slot *Slot, spec Spec) (*Order, error) {
	if err := ctx.Err(); err != nil {
		slot.Free()
		return nil, err
	}
	terms := p.accounts.terms(slot.account)
	o := newOrder(slot, spec, terms)
	p.lives.set(spec.ID, spec.Lifetime)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	at, err := p.acquire(ctx, bounded, o, terms.limit)
	if err != nil {
		return nil, err
	}
	// What Redis carries out when nobody waits for it any more must do nothing.
	notAfter := at.After(stockTime + clockSlack)
	full, err := p.book(bounded, o, notAfter)
	switch {
	case err != nil:
		return nil, p.rollbackTwice(ctx, o, fmt.Errorf("reserving in a budget: %w", err))
	case full != nil:
		p.giveBack(ctx, o)
		return nil, full
	}
	placing, err := p.stock.Place(bounded, pool.Order{
		Ref: o.Ref, Guest: spec.isGuest(), Depth: spec.Depth, Margin: spec.Margin, Lead: spec.Lead, TTL: lifetime(o.account),
		Price: max(0, o.price), Facts: o.facts(),
		PerHour: spec.PerHour, PerDay: spec.PerDay, NotAfter: notAfter,
	})
	switch {
	case err != nil:
		return nil, p.rollbackTwice(ctx, o, fmt.Errorf("placing an order: %w", err))
	case placing.BudgetWait > 0:
		p.giveBack(ctx, o)
		return nil, &BudgetError{RetryAfter: placing.BudgetWait}
	case placing.Held != nil:
		p.giveBack(ctx, o)
		return nil, placing.Held
	case !placing.Placed:
		p.giveBack(ctx, o)
		return nil, ErrDepth
	}
	o.placed = time.Now()
	crash.At("placed")
	return o, nil
}

// acquire takes a permit at the slot's provider. It returns when Redis decided, or Buy's error
// with the slot freed.
func (p *placer) acquire(ctx, bounded context.Context, o *Order, limit int) (at pool.Moment, err error) {
	name := o.account.Name()
	permit, err := p.stock.Acquire(bounded, o.provider, o.Ref, limit, lifetime(o.account)+placeMargin, sinceAnswered(o.account))
	if err != nil {
		return 0, p.rollbackTwice(ctx, o, fmt.Errorf("reserving a place at %s: %w", name, err))
	}
	o.refusals = permit.Refusals
	switch {
	case permit.Wait > 0:
		p.accounts.yield(o.account, permit.Wait+spread(turnSpread))
		o.slot.Free()
		return 0, fmt.Errorf("%s: %w: it is probed by one order at a time", name, ErrBusy)
	case !permit.OK:
		o.slot.full()
		return 0, fmt.Errorf("%s: %w: all replicas together have %d orders there", name, ErrBusy, limit)
	case permit.Refusals >= permits.MostRefusals:
		p.accounts.yield(o.account, turnEvery+2*turnSpread) // the next turn is another replica's, if one wants it
	}
	if o.slot.used != nil {
		o.slot.used()
	}
	return permit.At, nil
}

// billionths is a price of the file in billionths of the currency.
func billionths(price float64) int64 {
	if price < 0 {
		return pool.PriceUnknown
	}
	return int64(math.Round(price * currency))
}

// newOrder is one that is about to be placed.
func newOrder(slot *Slot, spec Spec, terms accountTerms) *Order {
	o := &Order{
		Ref:  pool.Ref{Identity: spec.ID, Order: rand.Text()},
		spec: spec, slot: slot, account: slot.account, provider: slot.account.Name(), accountID: terms.id,
		timeout: slot.account.Timeout(), deadline: time.Now().Add(lifetime(slot.account)),
		delay: terms.callbacks.Delay, price: billionths(terms.price(spec.Identity.Type)),
	}
	o.pingback = terms.callbacks.address(o.provider, o.Ref)
	o.called = o.pingback != ""
	o.fallback = terms.callbacks.fallback(o.timeout, spec.Lifetime-spec.Margin)
	return o
}

// book reserves a part of each budget that the order shares with others; full is the
// first that has no room.
func (p *placer) book(ctx context.Context, o *Order, notAfter pool.Moment) (full *BudgetError, err error) {
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
			_ = sleep(ctx, askAgain)
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

// rollbackTwice takes back an order of which a step had no answer, and once more later:
// Redis may carry that step out when it goes on.
func (p *placer) rollbackTwice(ctx context.Context, o *Order, cause error) error {
	p.rollback(ctx, o)
	p.later(o)
	return cause
}

// giveBack frees the slot of an order that was not placed, and its
// reservations. Where Redis does not answer, the place is forgotten in time.
func (p *placer) giveBack(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := p.release(ctx, o.provider, o.Ref, o.booked); err != nil {
		p.log.Debug("reservations not given back", "target", o.spec.Target, "provider", o.account.Name(), "err", err)
		p.later(o)
	}
}

// rollback takes back an order that was not submitted, as far as it got, and frees
// its slot. Where Redis does not answer, what is left is forgotten in time.
func (p *placer) rollback(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := p.remove(ctx, o.provider, o.Ref, o.booked); err != nil {
		p.log.Debug("order not taken back", "target", o.spec.Target, "provider", o.account.Name(), "err", err)
	}
}

// remove removes an order that was not bought, then its reservations: a place
// without an order counts too many, an order without a place too few.
func (p *placer) remove(ctx context.Context, provider string, order pool.Ref, booked []pool.Budget) error {
	var how pool.Ending
	err := withTimeout(ctx, func(ctx context.Context) (err error) {
		how, err = p.stock.Fail(ctx, pool.Failure{Ref: order})
		return err
	})
	if err != nil || how == pool.Stolen {
		return err
	}
	return p.release(ctx, provider, order, booked)
}

// release gives an order's place at the provider and in the budgets back.
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
		return p.stock.GiveBack(ctx, provider, order)
	})
}

// leftover is an order of which a step had no answer. A Redis that hangs may
// carry that step out when it goes on, after the order was taken back, and the
// order would count until its time is over.
type leftover struct {
	order *Order
	once  bool // taken back once; a second time makes sure
}

// later remembers an order to be taken back again.
func (p *placer) later(o *Order) {
	o.spec.Image = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leftovers = append(p.leftovers, leftover{order: o})
}

// retry takes every leftover back, twice, or until Redis itself forgets it; what
// stands in a budget is not forgotten for a day.
func (p *placer) retry(ctx context.Context) {
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
			break // Redis is still away
		}
		if l.once {
			l.order = nil
		}
		l.once = true
	}
	due = slices.DeleteFunc(due, func(l leftover) bool { return l.order == nil })
}
