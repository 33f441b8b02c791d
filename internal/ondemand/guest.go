package ondemand

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
)

const (
	// mostPlacers bounds the goroutines that place orders for guests.
	mostPlacers = 64
	// A bid for a slot stands for bidFor; then it is seen whether anybody still waits.
	bidFor = 500 * time.Millisecond
	// patience is how long a caller waits for a slot before it is told that no provider
	// can be asked.
	patience = 2 * time.Second
	// busyWait, and up to as much again, passes before a guest asks again after an order
	// could not be placed.
	busyWait = 250 * time.Millisecond
)

// guest is an identity without a target while callers wait for it here, or an order that
// was placed for them is under way. Its fields are guarded by guests.mu.
type guest struct {
	id     captcha.ID
	calls  []*call // in the order in which they came
	orders int     // placed here and not ended
	queued bool    // a placer looks at it, or will
	kicked bool    // something happened since the placer looked
}

// call is a caller that waits for a guest.
type call struct {
	spec purchase.Spec
	// once is the Idempotency-Key that it waits with: calls with the same one hold one
	// ticket. "" = none.
	once   string
	came   time.Time
	cancel context.CancelCauseFunc // ends its wait
}

// take takes a token of a guest, and has one bought where there is none.
func (s *Service) take(ctx context.Context, r Request) (pool.Token, error) {
	if r.Guest == nil {
		return s.tokens.Take(ctx, r.Take)
	}
	if refused := s.refusals.get(r.Take.ID, time.Now()); refused != nil {
		return pool.Token{}, refused
	}
	use := r.Guest.Use
	use.Wait = r.Take.Wait
	if err := s.list.Use(ctx, r.Take.ID, use); err != nil {
		return pool.Token{}, err
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &call{spec: r.Guest.Spec, once: r.Take.Idempotency, came: time.Now(), cancel: cancel}
	g := s.enter(r.Take.ID, c)
	defer s.leave(g, c)
	token, err := s.tokens.Take(waiting, r.Take)
	if err != nil && waiting.Err() != nil {
		err = context.Cause(waiting)
	}
	return token, err
}

// enter adds a call to its guest. Nothing is placed for it before its ticket stands,
// which Kick tells.
func (s *Service) enter(id captcha.ID, c *call) *guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guests[id]
	if g == nil {
		g = &guest{id: id}
		s.guests[id] = g
		s.active.Add(1)
	}
	g.calls = append(g.calls, c)
	return g
}

// leave takes a call out of its guest.
func (s *Service) leave(g *guest, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(other *call) bool { return other == c })
	s.forgetLocked(g)
}

// forgetLocked forgets a guest of which nothing is left.
func (s *Service) forgetLocked(g *guest) {
	if len(g.calls) == 0 && g.orders == 0 && !g.queued && s.guests[g.id] == g {
		delete(s.guests, g.id)
		s.active.Add(-1)
	}
}

// uncoveredLocked are the calls whose tickets have no order under way here, in their
// order. Calls with one Idempotency-Key hold one ticket.
func (g *guest) uncoveredLocked() (calls []*call) {
	tickets, covered := 0, map[string]bool{}
	for _, c := range g.calls {
		known, seen := covered[c.once]
		if c.once == "" || !seen {
			known = tickets < g.orders
			tickets++
			covered[c.once] = known
		}
		if !known {
			calls = append(calls, c)
		}
	}
	return calls
}

// kickLocked has a placer look at a guest.
func (s *Service) kickLocked(g *guest) {
	switch {
	case g.queued:
		g.kicked = true
	case len(g.uncoveredLocked()) > 0:
		g.queued = true
		s.due = append(s.due, g)
		ring(s.dueBell)
	}
}

// place places orders for a guest until there are as many as calls here, or enough.
func (s *Service) place(ctx context.Context, g *guest) {
	for enough := false; ; {
		c := s.lacking(ctx, g, enough)
		if c == nil {
			return
		}
		enough = s.placeFor(ctx, g, c)
	}
}

// lacking is a call for which an order is to be placed. Where there is none, or where
// there were orders enough and nothing has happened since, the placer is done.
func (s *Service) lacking(ctx context.Context, g *guest, enough bool) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if calls := g.uncoveredLocked(); len(calls) > 0 && ctx.Err() == nil && (!enough || g.kicked) {
		g.kicked = false
		return calls[0]
	}
	g.queued, g.kicked = false, false
	s.forgetLocked(g)
	return nil
}

// placeFor places an order for a call, and reports whether there are enough without it.
func (s *Service) placeFor(ctx context.Context, g *guest, c *call) (enough bool) {
	limited, cancel := context.WithTimeout(ctx, bidFor)
	defer cancel()
	slot, err := s.buyer.Admit(limited, purchase.Bid{Callers: true, Since: c.came})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false
	case errors.Is(err, context.DeadlineExceeded):
		s.starving(ctx, g, c)
		return false
	default: // no provider is listed
		s.answer(g, MostWaiting, &OutageError{Reason: err.Error()})
		return false
	}
	s.ordered(g, 1)
	err = s.buyer.Buy(ctx, slot, c.spec, func(r purchase.Result) { s.ended(g, r) })
	if err == nil {
		return false
	}
	s.ordered(g, -1)
	var budget *purchase.BudgetError
	switch {
	case errors.Is(err, purchase.ErrDepth):
		return true
	case errors.As(err, &budget):
		return s.outOfBudget(ctx, g, c, budget)
	default: // the provider, or Redis, can take no order now
		s.log.Debug("no order for a guest", "err", err)
		pause(ctx, busyWait+rand.N(busyWait)) //nolint:gosec // G404: nothing secret depends on it
		return false
	}
}

func (s *Service) ordered(g *guest, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.orders += n
}

// starving tells those who wait for a slot in vain that no provider can be asked.
func (s *Service) starving(ctx context.Context, g *guest, c *call) {
	at := time.Now()
	if at.Sub(c.came) < patience {
		return
	}
	if reason, until, is := purchase.Outage(s.buyer.Providers(ctx, at)); is {
		s.answer(g, MostWaiting, &OutageError{Reason: reason, Until: until})
	}
}

// outOfBudget tells those who came last, as many as there are too few orders for. The
// budgets are asked before the stock, so that it must be looked at.
func (s *Service) outOfBudget(ctx context.Context, g *guest, c *call, budget *purchase.BudgetError) (enough bool) {
	stock, err := s.tokens.Look(ctx, g.id, c.spec.Margin, 0)
	if err != nil {
		pause(ctx, busyWait)
		return false
	}
	missing := stock.Waiting - stock.Orders - stock.Fresh
	if missing > 0 {
		s.answer(g, missing, &BudgetError{Reason: budget.Error(), RetryAfter: budget.RetryAfter})
	}
	return true
}

// answer ends the wait of those calls that came last and have no order, of most so many.
func (s *Service) answer(g *guest, most int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := g.uncoveredLocked()
	told = told[max(0, len(told)-most):]
	for _, c := range told {
		c.cancel(err)
	}
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool { return slices.Contains(told, c) })
}

// ended takes notice of how an order that was placed here ended.
func (s *Service) ended(g *guest, r purchase.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.orders--
	s.endedLocked(g, r)
	s.forgetLocked(g)
}

// Ended takes notice of how an order of an identity without a target ended that another
// replica had placed and this one has adopted.
func (s *Service) Ended(id captcha.ID, r purchase.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.guests[id]; g != nil {
		s.endedLocked(g, r)
	}
}

func (s *Service) endedLocked(g *guest, r purchase.Result) {
	switch {
	case r.Hopeless:
		refused := &SolveError{Refused: true, Reason: r.Err.Error()}
		s.refusals.add(g.id, refused, time.Now())
		for _, c := range g.calls {
			c.cancel(refused)
		}
		g.calls = nil
	case r.Outcome == purchase.Failed && len(g.calls) > 0:
		s.failLocked(g, g.calls[0], &SolveError{Reason: r.Err.Error()})
	}
	s.kickLocked(g)
}

// failLocked answers a call, and those that hold its ticket with it.
func (s *Service) failLocked(g *guest, first *call, err error) {
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool {
		mine := c == first || c.once != "" && c.once == first.once
		if mine {
			c.cancel(err)
		}
		return mine
	})
}

// pause waits, but not beyond the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ring signals without waiting.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
