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
	// A bid for a slot stands for bidFor; then it is seen whether anybody still waits.
	bidFor = 500 * time.Millisecond
	// patience is how long a caller waits for a slot before it is told that no provider
	// can be asked.
	patience = 2 * time.Second
	// busyWait, and up to as much again, passes before a guest asks again after an order
	// could not be placed.
	busyWait = 250 * time.Millisecond
)

// place places orders for a guest until there are as many as calls here, or enough.
func (gs *guests) place(ctx context.Context, g *guest) {
	for enough := false; ; {
		c := gs.lacking(ctx, g, enough)
		if c == nil {
			return
		}
		enough = gs.placeFor(ctx, g, c)
	}
}

// lacking is a call for which an order is to be placed. Where there is none, or where
// there were orders enough and nothing has happened since, the placer is done.
func (gs *guests) lacking(ctx context.Context, g *guest, enough bool) *call {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if calls := g.uncoveredLocked(); len(calls) > 0 && ctx.Err() == nil && (!enough || g.kicked) {
		g.kicked = false
		return calls[0]
	}
	gs.doneLocked(g)
	return nil
}

// done ends a placer's work on a guest.
func (gs *guests) done(g *guest) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.doneLocked(g)
}

func (gs *guests) doneLocked(g *guest) {
	g.queued, g.kicked = false, false
	gs.forgetLocked(g)
}

// placeFor places an order for a call, and reports whether there are enough without it.
func (gs *guests) placeFor(ctx context.Context, g *guest, c *call) (enough bool) {
	limited, cancel := context.WithTimeout(ctx, bidFor)
	defer cancel()
	slot, err := gs.buyer.Admit(limited, purchase.Bid{Callers: true, Since: c.came, For: purchase.GuestTarget})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false
	case errors.Is(err, context.DeadlineExceeded):
		gs.starving(ctx, g, c)
		return false
	default: // no provider is listed
		gs.answer(g, MostWaiting, &OutageError{Reason: err.Error()})
		return false
	}
	gs.ordered(g, 1)
	err = gs.buyer.Buy(ctx, slot, c.spec, func(r purchase.Result) { gs.ended(g, r) })
	if err == nil {
		return false
	}
	gs.ordered(g, -1)
	var budget *purchase.BudgetError
	var held *pool.HeldError
	switch {
	case errors.As(err, &held):
		return gs.held(g, held)
	case errors.Is(err, purchase.ErrDepth):
		return true
	case errors.As(err, &budget):
		return gs.outOfBudget(ctx, g, c, budget)
	default: // the provider, or Redis, can take no order now
		gs.log.Debug("no order for a guest", "err", err)
		_ = backoff.Sleep(ctx, busyWait+backoff.UpTo(busyWait))
		return false
	}
}

// held answers the calls that have no order: the last orders failed, and the next one is
// not placed before these calls would have ended.
func (gs *guests) held(g *guest, held *pool.HeldError) (enough bool) {
	if held.Hopeless {
		gs.refuse(g, &SolveError{Refused: true, Reason: held.Reason}, min(refusedFor, held.RetryAfter))
	} else {
		gs.answer(g, MostWaiting, &SolveError{Reason: held.Error()})
	}
	return true
}

func (gs *guests) ordered(g *guest, n int) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.orders += n
}

// starving tells those who wait for a slot in vain that no provider can be asked.
func (gs *guests) starving(ctx context.Context, g *guest, c *call) {
	at := time.Now()
	if at.Sub(c.came) < patience {
		return
	}
	if reason, until, is := purchase.Outage(gs.buyer.Providers(ctx, at)); is {
		gs.answer(g, MostWaiting, &OutageError{Reason: reason, Until: until})
	}
}

// outOfBudget tells those who came last, as many as there are too few orders for. The
// budgets are asked before the stock, so that it must be looked at.
func (gs *guests) outOfBudget(ctx context.Context, g *guest, c *call, budget *purchase.BudgetError) (enough bool) {
	stock, err := gs.tokens.Look(ctx, g.id, c.spec.Margin, 0)
	if err != nil {
		_ = backoff.Sleep(ctx, busyWait)
		return false
	}
	missing := stock.Waiting - stock.Orders - stock.Fresh
	if missing > 0 {
		gs.answer(g, missing, &BudgetError{Reason: budget.Error(), RetryAfter: budget.RetryAfter})
	}
	return true
}
