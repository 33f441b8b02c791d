package purchase

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
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
	// clockSlack is how far the clocks of Redis nodes may be apart for buying.
	clockSlack = 10 * time.Second
	// askAgain is when a full budget is asked once more: an order that the depth
	// sentence refuses holds its part for a moment.
	askAgain = 100 * time.Millisecond
	// currency is how many of the units that prices are kept in make one.
	currency = 1e9
)

// Order is one purchase under way. It belongs to the goroutine that calls collect,
// which may be called once.
type Order struct {
	pool.Ref
	spec      Spec
	slot      *Slot
	account   *account      // whom to ask
	provider  string        // the name under which it was placed, and holds its place
	accountID string        // the provider's, as it was then
	timeout   time.Duration // the provider's, as it was at the placing
	booked    bool          // may stand in the budget over all targets
	pingback  string        // where the provider shall call; "" = nowhere, or it was told before
	called    bool          // the provider was told to call
	fallback  time.Duration // how long to wait for that before polling
	delay     time.Duration // how old a token is when the call comes
	// deadline is when Redis forgets the order, or a little before.
	deadline time.Time

	placed time.Time // when place was answered; an adopted one's, as late as it can be
	// Set by collect, in this order; an adopted order has them already.
	submitted time.Time // just before the submit
	answered  time.Time // when the task id came
	task      string    // the provider's id
	unsolved  time.Time // latest moment at which the task is known to be unsolved

	stop       context.CancelFunc // ends collect; set while the desk holds the order
	told       atomic.Pointer[Result]
	submitting atomic.Bool // a task may be about to become known
}

// facts are what is written into the journal for whoever adopts the order or
// gets its callback.
type facts struct {
	Target     string       `json:"target"`
	Provider   string       `json:"provider"`
	Account    string       `json:"account,omitempty"` // the provider's, under whatever name
	Type       captcha.Type `json:"type"`
	Enterprise bool         `json:"enterprise,omitempty"`
	Lifetime   int64        `json:"lifetime_ms"`
	Margin     int64        `json:"margin_ms"`
	Called     bool         `json:"called,omitempty"` // the provider was told to call back
	Delay      int64        `json:"callback_delay_ms"`
	Timeout    int64        `json:"timeout_ms"`
}

func (o *Order) facts() string {
	text, _ := json.Marshal(facts{ // strings and numbers alone
		Target: o.spec.Target, Provider: o.provider, Account: o.accountID,
		Type: o.spec.Identity.Type, Enterprise: o.spec.Identity.Enterprise,
		Lifetime: o.spec.Lifetime.Milliseconds(), Margin: o.spec.Margin.Milliseconds(),
		Called: o.called, Delay: o.delay.Milliseconds(), Timeout: o.timeout.Milliseconds(),
	})
	return string(text)
}

func readFacts(text string) (facts, error) {
	var f facts
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("reading what the journal knows of an order: %w", err)
	}
	return f, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// lifetime is how long an order may be under way: the provider's own limit,
// and a call before and after it.
func lifetime(p Solver) time.Duration { return p.Timeout() + 2*callTime }

// place takes a place at the slot's provider, then one in the budget over all
// targets, then creates the order beside the stock. Its errors are Buy's. With any of
// them nothing is left behind and the slot is freed; without one collect must follow.
//
// An end of ctx is noticed before the first step only: a step in Redis that is
// cut leaves behind what nobody knows of. The steps take a few seconds at most.
func (d *Desk) place(ctx context.Context, slot *Slot, spec Spec) (*Order, error) {
	if err := ctx.Err(); err != nil {
		slot.Free()
		return nil, err
	}
	o := &Order{
		Ref:  pool.Ref{Identity: spec.ID, Order: rand.Text()},
		spec: spec, slot: slot, account: slot.account, provider: slot.account.Name(), timeout: slot.account.Timeout(),
		deadline: time.Now().Add(lifetime(slot.account)),
	}
	terms := d.accounts.terms(o.account)
	o.accountID = terms.id
	d.mu.Lock()
	perDay := d.perDay
	d.lives[spec.ID] = spec.Lifetime
	d.mu.Unlock()
	o.pingback = terms.callbacks.address(o.provider, o.Ref)
	o.called, o.delay = o.pingback != "", terms.callbacks.Delay
	o.fallback = terms.callbacks.fallback(o.timeout, spec.Lifetime-spec.Margin)

	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	free, at, err := d.stock.Reserve(bounded, o.provider, o.Ref, terms.limit, lifetime(o.account)+placeMargin)
	if err != nil {
		return nil, d.abort(ctx, o, fmt.Errorf("reserving a place at %s: %w", o.account.Name(), err))
	}
	if !free {
		slot.full()
		return nil, fmt.Errorf("%s: %w: all replicas together have %d orders there", o.account.Name(), ErrBusy, terms.limit)
	}
	// What Redis carries out when nobody waits for it any more must do nothing.
	notAfter := at.After(stockTime + clockSlack)
	if o.booked = perDay > 0; o.booked {
		wait, err := d.stock.Book(bounded, o.Ref, perDay, notAfter)
		if err == nil && wait > 0 {
			_ = sleep(bounded, askAgain)
			wait, err = d.stock.Book(bounded, o.Ref, perDay, notAfter)
		}
		if err != nil {
			return nil, d.abort(ctx, o, fmt.Errorf("reserving in the budget: %w", err))
		}
		if wait > 0 {
			d.giveBack(ctx, o)
			return nil, &BudgetError{Overall: true, RetryAfter: wait}
		}
	}
	placing, err := d.stock.Place(bounded, pool.Order{
		Ref: o.Ref, Depth: spec.Depth, Margin: spec.Margin, Lead: spec.Lead, TTL: lifetime(o.account),
		Price: int64(math.Round(terms.price(spec.Identity.Type) * currency)), Facts: o.facts(),
		PerHour: spec.PerHour, PerDay: spec.PerDay, NotAfter: notAfter,
	})
	switch {
	case err != nil:
		return nil, d.abort(ctx, o, fmt.Errorf("placing an order: %w", err))
	case placing.BudgetWait > 0:
		d.giveBack(ctx, o)
		return nil, &BudgetError{RetryAfter: placing.BudgetWait}
	case !placing.Placed:
		d.giveBack(ctx, o)
		return nil, ErrDepth
	}
	o.placed = time.Now()
	crash("placed")
	return o, nil
}

// abort takes back an order of which a step had no answer, and once more later:
// Redis may carry that step out when it goes on.
func (d *Desk) abort(ctx context.Context, o *Order, cause error) error {
	d.undo(ctx, o)
	d.leave(o)
	return cause
}

// giveBack frees the slot of an order that was not placed, and its
// reservations. Where Redis does not answer, the place is forgotten in time.
func (d *Desk) giveBack(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := d.unreserve(ctx, o.provider, o.Ref, o.booked); err != nil {
		d.log.Debug("reservations not given back", "target", o.spec.Target, "provider", o.account.Name(), "err", err)
		d.leave(o)
	}
}

// undo takes back an order that was not submitted, as far as it got, and frees
// its slot. Where Redis does not answer, what is left is forgotten in time.
func (d *Desk) undo(ctx context.Context, o *Order) {
	defer o.slot.Free()
	if err := d.takeBack(ctx, o.provider, o.Ref, o.booked); err != nil {
		d.log.Debug("order not taken back", "target", o.spec.Target, "provider", o.account.Name(), "err", err)
	}
}

// takeBack removes an order that was not bought, then its reservations: a place
// without an order counts too many, an order without a place too few.
func (d *Desk) takeBack(ctx context.Context, provider string, order pool.Ref, booked bool) error {
	var how pool.Ending
	err := attempt(ctx, func(ctx context.Context) (err error) {
		how, err = d.stock.Fail(ctx, pool.Failure{Ref: order})
		return err
	})
	if err != nil || how == pool.Stolen {
		return err
	}
	return d.unreserve(ctx, provider, order, booked)
}

// unreserve gives an order's place at the provider and in the budget back.
func (d *Desk) unreserve(ctx context.Context, provider string, order pool.Ref, booked bool) error {
	if booked {
		err := attempt(ctx, func(ctx context.Context) error {
			return d.stock.Refund(ctx, order)
		})
		if err != nil {
			return err
		}
	}
	return attempt(ctx, func(ctx context.Context) error {
		return d.stock.Release(ctx, provider, order)
	})
}
