package ondemand

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
)

const (
	// mostPlacers bounds the goroutines that place orders for guests.
	mostPlacers = 64
	// lookEvery is how often the guests here are looked at although nothing was heard.
	lookEvery = time.Second
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

// guests are those that are asked for at this replica. It is safe for concurrent use.
type guests struct {
	tokens   Tokens
	list     Guests
	buyer    Buyer
	log      *slog.Logger
	refusals refusals
	// uncounted is called for each request that the stock does not count.
	uncounted func()
	dueBell   chan struct{} // of one: something is due
	active    atomic.Int64  // how many there are, so that a kick of no concern costs nothing

	mu  sync.Mutex
	of  map[captcha.ID]*guest
	due []*guest // to be looked at by a placer
}

// run has orders placed until ctx ends, and returns when no placer is at work.
func (gs *guests) run(ctx context.Context) {
	var placers errgroup.Group
	placers.SetLimit(mostPlacers)
	var looking sync.WaitGroup
	looking.Go(func() { gs.keepLooking(ctx) })
	for ctx.Err() == nil {
		g := gs.next()
		if g == nil {
			select {
			case <-gs.dueBell:
			case <-ctx.Done():
			}
			continue
		}
		placers.Go(func() error { // waits while as many are at work as may be
			if panics.Contain(gs.log, faultMessage, func() { gs.place(ctx, g) }) != nil {
				gs.done(g)
			}
			return nil
		})
	}
	looking.Wait()
	_ = placers.Wait()
}

// next is the guest that has been due for the longest.
func (gs *guests) next() *guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if len(gs.due) == 0 {
		return nil
	}
	g := gs.due[0]
	gs.due = gs.due[1:]
	return g
}

// keepLooking looks at what is asked for here, because an order can end at another
// replica without a word.
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
				gs.kickLocked(g)
			}
			gs.mu.Unlock()
		}
	}
}

// kick says that something happened to an identity.
func (gs *guests) kick(id captcha.ID) {
	if gs.active.Load() == 0 {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[id]; g != nil {
		gs.kickLocked(g)
	}
}

// take takes a token of a guest, and has one bought where there is none.
func (gs *guests) take(ctx context.Context, r Request) (pool.Token, error) {
	if r.Guest == nil {
		return gs.tokens.Take(ctx, r.Take)
	}
	if refused := gs.refusals.get(r.Take.ID, time.Now()); refused != nil {
		gs.uncounted()
		return pool.Token{}, refused
	}
	use := r.Guest.Use
	// Also a token that comes back late, from a caller that had hung up, finds its guest
	// on the list.
	use.Wait = r.Take.Wait + r.Guest.Spec.Lifetime
	if err := gs.list.Use(ctx, r.Take.ID, use); err != nil {
		gs.uncounted()
		return pool.Token{}, err
	}
	r.Take.Told = true
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &call{spec: r.Guest.Spec, once: r.Take.Idempotency, came: time.Now(), cancel: cancel}
	g := gs.enter(r.Take.ID, c)
	defer gs.leave(g, c)
	token, err := gs.tokens.Take(waiting, r.Take)
	if limited := (*pool.RateError)(nil); errors.As(err, &limited) || errors.Is(err, pool.ErrConflict) || errors.Is(err, redisdb.ErrDown) {
		gs.uncounted()
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

// enter adds a call to its guest. Nothing is placed for it before its ticket stands,
// which Kick tells.
func (gs *guests) enter(id captcha.ID, c *call) *guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[id]
	if g == nil {
		g = &guest{id: id}
		gs.of[id] = g
		gs.active.Add(1)
	}
	g.calls = append(g.calls, c)
	return g
}

// leave takes a call out of its guest.
func (gs *guests) leave(g *guest, c *call) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(other *call) bool { return other == c })
	gs.forgetLocked(g)
}

// forgetLocked forgets a guest of which nothing is left.
func (gs *guests) forgetLocked(g *guest) {
	if len(g.calls) == 0 && g.orders == 0 && !g.queued && gs.of[g.id] == g {
		delete(gs.of, g.id)
		gs.active.Add(-1)
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
func (gs *guests) kickLocked(g *guest) {
	switch {
	case g.queued:
		g.kicked = true
	case len(g.uncoveredLocked()) > 0:
		g.queued = true
		gs.due = append(gs.due, g)
		ring(gs.dueBell)
	}
}

// answer ends the wait of those calls that came last and have no order, at most so many.
func (gs *guests) answer(g *guest, most int, err error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	told := g.uncoveredLocked()
	told = told[max(0, len(told)-most):]
	for _, c := range told {
		c.cancel(err)
	}
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool { return slices.Contains(told, c) })
}

// ended takes notice of how an order that was placed here ended.
func (gs *guests) ended(g *guest, r purchase.Result) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.orders--
	gs.endedLocked(g, r)
	gs.forgetLocked(g)
}

// adoptedEnded is ended for an order that another replica had placed and this one has
// adopted.
func (gs *guests) adoptedEnded(id captcha.ID, r purchase.Result) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[id]; g != nil {
		gs.endedLocked(g, r)
	}
}

// endedLocked has another order placed where one is lacking. After one that failed none
// is: it has answered a caller, or there were orders enough.
func (gs *guests) endedLocked(g *guest, r purchase.Result) {
	if r.Hopeless {
		gs.refuseLocked(g, &SolveError{Refused: true, Reason: r.Err.Error()}, refusedFor)
	}
	if r.Outcome != purchase.Failed {
		gs.kickLocked(g)
	}
}

// refuse answers all calls, and those of the next time, that the provider rejects the
// parameters.
func (gs *guests) refuse(g *guest, refused *SolveError, next time.Duration) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.refuseLocked(g, refused, next)
}

func (gs *guests) refuseLocked(g *guest, refused *SolveError, next time.Duration) {
	gs.refusals.add(g.id, refused, time.Now().Add(next))
	for _, c := range g.calls {
		c.cancel(refused)
	}
	g.calls = nil
}
