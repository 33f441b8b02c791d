package ondemand

import (
	"context"
	"errors"
	"time"

	"poold/internal/backoff"
	"poold/internal/pool"
	"poold/internal/purchase"
)

const (
	// bidFor limits the wait of one bid for a slot. After this time the placer checks whether the
	// call is still pending.
	bidFor = 500 * time.Millisecond
	// patience is how long a caller waits for a slot before it gets an OutageError.
	patience = 2 * time.Second
	// busyWait is the shortest backoff after an attempt to place an order has failed. The longest
	// backoff is twice as long.
	busyWait = 250 * time.Millisecond
)

// place places orders for a guest until each call at this replica has an order, or until the stock
// reports that there are enough orders.
func (gs *guests) place(ctx context.Context, g *guest) {
	for enough := false; ; {
		c := gs.nextCall(ctx, g, enough)
		if c == nil {
			return
		}
		enough = gs.placeFor(ctx, g, c)
	}
}

// nextCall returns a call without an order. If there is no such call, nextCall ends the placer's
// work and returns nil. It does the same if the argument `enough` is true and no event came after
// the last check.
func (gs *guests) nextCall(ctx context.Context, g *guest, enough bool) *call {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if calls := g.uncoveredLocked(); len(calls) > 0 && ctx.Err() == nil && (!enough || g.woken) {
		g.woken = false
		return calls[0]
	}
	gs.doneLocked(g)
	return nil
}

// endPlacing records that the placer has stopped working on the guest.
func (gs *guests) endPlacing(g *guest) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.doneLocked(g)
}

func (gs *guests) doneLocked(g *guest) {
	g.queued, g.woken = false, false
	gs.forgetLocked(g)
}

// placeFor places an order for a call. It returns true if there are enough orders without this order.
func (gs *guests) placeFor(ctx context.Context, g *guest, c *call) (enough bool) {
	limited, cancel := context.WithTimeout(ctx, bidFor)
	defer cancel()
	slot, err := gs.buyer.Admit(limited, purchase.Bid{
		Callers: true, Since: c.came, For: purchase.GuestTarget,
		Type: c.spec.Identity.Type, Policy: c.terms.Policy, MaxWaste: c.terms.MaxWaste, Patience: time.Until(c.until),
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false
	case errors.Is(err, context.DeadlineExceeded):
		gs.answerOutage(ctx, g, c)
		return false
	default: // the configuration file lists no provider
		gs.endWaits(g, MostWaiting, &OutageError{Reason: err.Error()})
		return false
	}
	gs.ordered(g, 1)
	err = gs.buyer.Buy(ctx, slot, c.spec, func(r purchase.Result) { gs.handleEnd(g, r) })
	if err == nil {
		return false
	}
	gs.ordered(g, -1)
	var budget *purchase.BudgetError
	var held *pool.BoundedError
	switch {
	case errors.As(err, &held):
		return gs.answerBounded(g, held)
	case errors.Is(err, purchase.ErrDepth):
		return true
	case errors.As(err, &budget):
		return gs.answerBudget(ctx, g, c, budget)
	default: // the provider or Redis accepts no order now
		gs.log.Debug("order for a guest not placed; trying again", "identity", g.id, "err", err)
		_ = backoff.Sleep(ctx, busyWait+backoff.UpTo(busyWait))
		return false
	}
}

// answerBounded ends the waits of the calls without an order. It is called when the last orders of
// the guest failed and the stock would admit the next order only after the time-outs of these calls.
func (gs *guests) answerBounded(g *guest, bound *pool.BoundedError) (enough bool) {
	if bound.Hopeless {
		gs.refuse(g, &SolveError{Refused: true, Reason: bound.Reason}, min(refusedFor, bound.RetryAfter))
	} else {
		gs.endWaits(g, MostWaiting, &SolveError{Reason: bound.Error()})
	}
	return true
}

func (gs *guests) ordered(g *guest, n int) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.orders += n
}

// answerOutage returns an OutageError to the calls without an order. It acts only if no provider
// accepts orders and the call c has waited for at least the duration `patience`.
func (gs *guests) answerOutage(ctx context.Context, g *guest, c *call) {
	at := time.Now()
	if at.Sub(c.came) < patience {
		return
	}
	if reason, until, is := purchase.Outage(gs.buyer.Providers(ctx, at)); is {
		gs.endWaits(g, MostWaiting, &OutageError{Reason: reason, Until: until})
	}
}

// answerBudget returns a BudgetError to the calls that arrived last. It ends one call for each order
// that the stock lacks. It reads the stock, because the buyer checks the budgets before it checks the
// depth.
func (gs *guests) answerBudget(ctx context.Context, g *guest, c *call, budget *purchase.BudgetError) (enough bool) {
	stock, err := gs.tokens.Look(ctx, g.id, c.spec.Margin, 0)
	if err != nil {
		_ = backoff.Sleep(ctx, busyWait)
		return false
	}
	missing := stock.Waiting - stock.Orders - stock.Fresh
	if missing > 0 {
		gs.endWaits(g, missing, &BudgetError{Reason: budget.Error(), RetryAfter: budget.RetryAfter})
	}
	return true
}
