package ondemand

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
)

const (
	// mostPlacers limits the goroutines that place orders for guests.
	mostPlacers = 64
	// lookEvery is the interval between two checks of all guests for missing orders.
	lookEvery = time.Second
	// refusedFor is how long this replica remembers that a provider rejected the parameters of an
	// identity. During this time it rejects requests for the identity without a call to the stock.
	// After that time the stock decides whether the next order may be placed.
	refusedFor = 30 * time.Second
	// mostRefusals limits the number of rejections that this replica remembers.
	mostRefusals = 10_000
)

// guest is an identity without a target that has pending callers at this replica, or orders in flight
// that this replica placed. guests.mu guards the fields of a guest.
type guest struct {
	id     captcha.ID
	calls  []*call // in the order of arrival
	orders int     // number of orders in flight that this replica placed
	queued bool    // the guest is in the queue, or a placer works on it
	woken  bool    // an event arrived after the placer last checked the guest
}

// call is a pending caller of a guest.
type call struct {
	spec purchase.Spec
	// The field once is the Idempotency-Key of the call; "" = none. Calls with the same key share one
	// ticket.
	once   string
	came   time.Time
	until  time.Time               // end of the wait
	terms  *Guest                  // Policy and MaxWaste
	cancel context.CancelCauseFunc // ends the wait of the call
}

// refusal is a rejection of an identity's parameters by the provider.
type refusal struct {
	err   *SolveError
	until time.Time
}

// guests contains the guests of this replica. It is safe for concurrent use.
type guests struct {
	tokens  Tokens
	list    Guests
	buyer   Buyer
	counter *counter
	log     *slog.Logger
	due     *queue[*guest] // guests that a placer must check for missing orders

	mu       sync.Mutex
	of       map[captcha.ID]*guest
	refusals map[captcha.ID]refusal
}

// run places orders until ctx ends, and returns when all placers have ended.
func (gs *guests) run(ctx context.Context) {
	var looking sync.WaitGroup
	looking.Go(func() { gs.keepLooking(ctx) })
	gs.due.run(ctx, mostPlacers, func(g *guest) {
		if panics.Contain(gs.log, panicMessage, func() { gs.place(ctx, g) }) != nil {
			gs.endPlacing(g)
		}
	})
	looking.Wait()
}

// keepLooking wakes all guests every second, because an order of another replica can end without an
// event at this replica.
func (gs *guests) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			gs.mu.Lock()
			for _, g := range gs.of {
				gs.wakeLocked(g)
			}
			gs.mu.Unlock()
		}
	}
}

// wake reports an event of an identity, such as the end of an order. It is a no-op for an identity that
// is not a guest of this replica.
func (gs *guests) wake(id captcha.ID) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[id]; g != nil {
		gs.wakeLocked(g)
	}
}

// take takes a token for a request. If the request is for a guest and the stock is empty, take waits for
// an order that a placer places.
func (gs *guests) take(ctx context.Context, r Request) (pool.Token, error) {
	if r.Guest == nil {
		return gs.tokens.Take(ctx, r.Take)
	}
	if refused := gs.refused(r.Take.ID, time.Now()); refused != nil {
		gs.counter.countGuests(1, 0)
		return pool.Token{}, refused
	}
	use := r.Guest.Use
	// The guest stays on the list for longer than the wait. If the caller hangs up and its token is
	// returned later, the stock still accepts the token.
	use.Wait = r.Take.Wait + r.Guest.Spec.Lifetime
	if err := gs.list.Use(ctx, r.Take.ID, use); err != nil {
		gs.counter.countGuests(1, 0)
		return pool.Token{}, err
	}
	r.Take.EndOnFailure = true
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &call{spec: r.Guest.Spec, terms: r.Guest, once: r.Take.Idempotency, came: time.Now(), until: time.Now().Add(r.Take.Wait), cancel: cancel}
	g := gs.enter(r.Take.ID, c)
	defer gs.leave(g, c)
	token, err := gs.tokens.Take(waiting, r.Take)
	if limited := (*pool.RateError)(nil); errors.As(err, &limited) || errors.Is(err, pool.ErrConflict) || errors.Is(err, redisdb.ErrDown) {
		gs.counter.countGuests(1, 0)
	}
	var failed *pool.FailedError
	switch {
	case err != nil && waiting.Err() != nil:
		err = context.Cause(waiting)
	case errors.As(err, &failed):
		solve := &SolveError{Refused: failed.Refused, Reason: failed.Reason}
		if solve.Refused {
			gs.refuse(g, solve, refusedFor)
		}
		err = solve
	}
	return token, err
}

// refused returns the rejection that this replica remembers for an identity; nil = none.
func (gs *guests) refused(id captcha.ID, at time.Time) *SolveError {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if r, ok := gs.refusals[id]; ok && at.Before(r.until) {
		return r.err
	}
	return nil
}

// enter adds a call to its guest. It places no order: when the call has its ticket, the stock calls
// Service.Wake, which queues the guest for a placer.
func (gs *guests) enter(id captcha.ID, c *call) *guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[id]
	if g == nil {
		g = &guest{id: id}
		gs.of[id] = g
	}
	g.calls = append(g.calls, c)
	return g
}

func (gs *guests) leave(g *guest, c *call) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(other *call) bool { return other == c })
	gs.forgetLocked(g)
}

// forgetLocked removes the guest from memory if it has no calls, no orders and no placer.
func (gs *guests) forgetLocked(g *guest) {
	if len(g.calls) == 0 && g.orders == 0 && !g.queued && gs.of[g.id] == g {
		delete(gs.of, g.id)
	}
}

// uncoveredLocked returns the calls for whose tickets this replica has no order in flight, in the order
// of arrival.
func (g *guest) uncoveredLocked() (calls []*call) {
	tickets, covered := 0, map[string]bool{}
	for _, c := range g.calls {
		has, seen := covered[c.once]
		if c.once == "" || !seen {
			has = tickets < g.orders
			tickets++
			covered[c.once] = has
		}
		if !has {
			calls = append(calls, c)
		}
	}
	return calls
}

// wakeLocked queues the guest for a placer if one of its calls has no order. If the guest is queued
// already, wakeLocked makes its placer check the guest again.
func (gs *guests) wakeLocked(g *guest) {
	switch {
	case g.queued:
		g.woken = true
	case len(g.uncoveredLocked()) > 0:
		g.queued = true
		gs.due.add(g)
	}
}

// endWaits ends at most `limit` waits of calls that have no order, with the error err. It ends the
// waits of the calls that arrived last.
func (gs *guests) endWaits(g *guest, limit int, err error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	answered := g.uncoveredLocked()
	answered = answered[max(0, len(answered)-limit):]
	for _, c := range answered {
		c.cancel(err)
	}
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool { return slices.Contains(answered, c) })
}

// handleEnd handles the end of an order that this replica placed.
func (gs *guests) handleEnd(g *guest, r purchase.Result) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.orders--
	gs.handleEndLocked(g, r)
	gs.forgetLocked(g)
}

// handleAdoptedEnd handles the end of an order that another replica placed and this replica adopted.
func (gs *guests) handleAdoptedEnd(id captcha.ID, r purchase.Result) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[id]; g != nil {
		gs.handleEndLocked(g, r)
	}
}

// handleEndLocked handles the end of an order. It queues the guest for a placer, unless the order
// failed. A failed order is not replaced: either the stock has ended the wait of one caller, or there
// were more orders than callers.
func (gs *guests) handleEndLocked(g *guest, r purchase.Result) {
	if r.Hopeless {
		gs.refuseLocked(g, &SolveError{Refused: true, Reason: r.Err.Error()}, refusedFor)
	}
	if r.Outcome != purchase.Failed {
		gs.wakeLocked(g)
	}
}

// refuse ends the waits of all calls of the guest with a rejection. Later requests get the same
// rejection until the duration `lasts` has passed.
func (gs *guests) refuse(g *guest, rejection *SolveError, lasts time.Duration) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.refuseLocked(g, rejection, lasts)
}

func (gs *guests) refuseLocked(g *guest, rejection *SolveError, lasts time.Duration) {
	at := time.Now()
	maps.DeleteFunc(gs.refusals, func(_ captcha.ID, r refusal) bool { return !at.Before(r.until) })
	if len(gs.refusals) < mostRefusals { // if this list is full, the stock still refuses the next order
		gs.refusals[g.id] = refusal{rejection, at.Add(lasts)}
	}
	for _, c := range g.calls {
		c.cancel(rejection)
	}
	g.calls = nil
}
