package refill

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
	"poold/internal/refill/policy/worth"
)

// ordering is a decision whose orders are being placed, one slot at a time. A worker uses no
// goroutine while it waits for a slot.
type ordering struct {
	policy.Decision
	stock   pool.Stock
	on      func(nth int) terms
	nth     int       // orders placed
	began   time.Time // time of the look
	passive bool      // see waitRange
}

// wait returns how long the worker waits after its last order.
func (o *ordering) wait() waitRange {
	placing := time.Since(o.began)
	return waitRange{least: max(0, coalesce-placing), most: max(0, o.Look-placing), passive: o.passive}
}

// grant is the response to a request for a slot.
type grant struct {
	slot *purchase.Slot
	err  error
}

func (g grant) free() {
	if g.slot != nil {
		g.slot.Free()
	}
}

func (w *worker) bid(o *ordering, at time.Time) purchase.Bid {
	held := max(0, o.stock.Outliving+o.stock.Orders+o.nth-o.stock.Waiting)
	bid := purchase.Bid{
		Callers: o.stock.Waiting > o.stock.Orders+o.nth, Worth: w.tracker.Worth(held),
		Since: w.status.wantsSlot(at), For: string(w.target.ID),
		Type: w.target.Identity.Type, Policy: worth.Policy(w.target.ProvidersPolicy), MaxWaste: w.target.MaxWaste,
	}
	switch {
	case bid.Policy != worth.Best: // the other policies ignore the time
	case bid.Callers:
		bid.Patience = w.stock.Patience(w.target.ID)
	default:
		bid.Afford = w.tracker.Lasts(held + 1)
	}
	return bid
}

// place places the next order in a granted slot. If o has more orders, place returns o as the
// result unfinished. Otherwise the result delay is how long the worker waits. If the decision is
// stale, place drops its remaining orders.
func (w *worker) place(ctx context.Context, o *ordering, g grant) (delay waitRange, unfinished *ordering) {
	if g.err != nil {
		return w.hindered(ctx, g.err), nil
	}
	// Orders may have ended while the worker waited for the slot.
	if ctx.Err() != nil || w.status.orderDelay(time.Now()) > 0 {
		g.free()
		w.woken.Store(true)
		return o.wait(), nil
	}
	err := w.buy(w, g.slot, o.on(o.nth))
	if errors.Is(err, purchase.ErrDepth) {
		// Another replica has placed an order since this worker read the stock. The landing of that
		// order does not wake this worker, so this worker must look again soon.
		pause := o.wait()
		pause.most = min(pause.most, bidFor)
		return pause, nil
	}
	if err != nil {
		return w.hindered(ctx, err), nil
	}
	w.tracker.Placed(time.Now())
	if w.status.placed(time.Now()) {
		w.log.Info("the budget has room again")
	}
	if o.nth++; o.nth < o.Order {
		return waitRange{}, o
	}
	return o.wait(), nil
}

// endTurn ends a turn and schedules the next one. If o has more orders, the worker also bids for a
// slot, or updates its pending bid.
func (l *looker) endTurn(w *worker, o *ordering, pause waitRange) {
	w.ordering = o
	if o == nil {
		l.mu.Lock()
		w.withdrawLocked()
		l.mu.Unlock()
		l.schedule(w, pause)
		return
	}
	at := time.Now()
	bid := w.bid(o, at)
	l.mu.Lock()
	if w.bidding {
		w.request.Change(bid)
		w.status.starve(at)
	} else {
		w.bidding = true
		w.bids++
		n := w.bids
		w.request = w.buyer.Request(bid, func(slot *purchase.Slot, err error) { l.granted(w, n, grant{slot, err}) })
	}
	l.mu.Unlock()
	// The next look updates the bid. That look comes soon after a wake-up, and at the latest when
	// the target becomes starved.
	pause = waitRange{least: bidFor, most: policy.Never}
	if starved := bid.Since.Add(starvedAfter); starved.After(at) {
		pause.most = starved.Sub(at)
	}
	l.schedule(w, pause)
}

// granted gives a worker the response to its n-th request for a slot. If a turn of the
// worker runs, granted stores the response until the turn ends.
func (l *looker) granted(w *worker, n int, g grant) {
	l.mu.Lock()
	if w.dismissed || !w.bidding || w.bids != n {
		l.mu.Unlock()
		g.free()
		return
	}
	if w.queueIndex < 0 {
		w.grant = &g
		l.mu.Unlock()
		return
	}
	heap.Remove(&l.queue, w.queueIndex)
	w.bidding = false
	l.mu.Unlock()
	l.order(w, g)
}

// order lets a worker place an order. The caller must have removed the worker from the
// queue.
func (l *looker) order(w *worker, g grant) {
	var left *ordering
	pause := w.contained(func() (pause waitRange) {
		pause, left = w.place(w.ctx, w.ordering, g)
		return pause
	})
	l.share(w)
	l.endTurn(w, left, pause)
}

// withdrawLocked ends the worker's bid. If a slot was already granted, withdrawLocked frees it.
func (w *worker) withdrawLocked() {
	if !w.bidding {
		return
	}
	w.bidding = false
	w.request.Withdraw()
	if w.grant != nil {
		w.grant.free()
		w.grant = nil
	}
}
