package refill

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
)

// ordering is a decision whose orders are being placed, one slot after the other. While
// it waits for a slot no goroutine does.
type ordering struct {
	policy.Decision
	stock   pool.Stock
	on      func(nth int) terms
	nth     int       // orders placed
	began   time.Time // the look
	content bool      // see rest
}

// rest is the worker's rest after the last order.
func (o *ordering) rest() rest {
	placing := time.Since(o.began)
	return rest{least: max(0, coalesce-placing), most: max(0, o.Look-placing), content: o.content}
}

// grant answers a request for a slot.
type grant struct {
	slot *purchase.Slot
	err  error
}

func (g grant) free() {
	if g.slot != nil {
		g.slot.Free()
	}
}

// bid is what the next order is worth.
func (w *worker) bid(o *ordering, at time.Time) purchase.Bid {
	return purchase.Bid{
		Callers: o.stock.Waiting > o.stock.Orders+o.nth,
		Worth:   w.tracker.Worth(max(0, o.stock.Outliving+o.stock.Orders+o.nth-o.stock.Waiting)),
		Since:   w.status.wantsSlot(at), For: string(w.target.ID),
	}
}

// place places the next order in a granted slot. It returns what is left to order, or
// nil and how long to rest. A decision that has become stale is dropped.
func (w *worker) place(ctx context.Context, o *ordering, g grant) (next rest, left *ordering) {
	if g.err != nil {
		return w.hindered(ctx, g.err), nil
	}
	// The wait can have been long, and orders have ended in it.
	if ctx.Err() != nil || w.status.heldFor(time.Now()) > 0 {
		g.free()
		w.kicked.Store(true)
		return o.rest(), nil
	}
	err := w.buy(w, g.slot, o.on(o.nth))
	if errors.Is(err, purchase.ErrDepth) {
		// Another replica has ordered since the look. Its landings wake only itself, so
		// what this one planned to see of its own orders will not come: look again.
		pause := o.rest()
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
		return rest{}, o
	}
	return o.rest(), nil
}

// goOn ends a turn: the worker rests, and if it has something to order it bids meanwhile.
// A bid that waits is changed only if its value changed.
func (l *looker) goOn(h *handle, o *ordering, pause rest) {
	h.ordering = o
	if o == nil {
		l.mu.Lock()
		h.withdrawLocked()
		l.mu.Unlock()
		l.rest(h, pause)
		return
	}
	at := time.Now()
	bid := h.bid(o, at)
	l.mu.Lock()
	if h.bidding {
		h.request.Change(bid)
		h.status.starve(at)
	} else {
		h.bidding = true
		h.bids++
		n := h.bids
		h.request = h.buyer.Request(bid, func(slot *purchase.Slot, err error) { l.granted(h, n, grant{slot, err}) })
	}
	l.mu.Unlock()
	// A look makes the bid anew: soon after a kick, and once when the target is starved.
	pause = rest{least: bidFor, most: policy.Never}
	if starved := bid.Since.Add(starvedAfter); starved.After(at) {
		pause.most = starved.Sub(at)
	}
	l.rest(h, pause)
}

// granted takes the answer to the nth request of a worker. If the worker is in a turn,
// the answer waits for the turn's end.
func (l *looker) granted(h *handle, n int, g grant) {
	l.mu.Lock()
	if h.dismissed || !h.bidding || h.bids != n {
		l.mu.Unlock()
		g.free()
		return
	}
	if h.place < 0 {
		h.grant = &g
		l.mu.Unlock()
		return
	}
	heap.Remove(&l.queue, h.place)
	h.bidding = false
	l.mu.Unlock()
	l.order(h, g)
}

// order has a worker place an order. The caller has taken the worker from the queue.
func (l *looker) order(h *handle, g grant) {
	var left *ordering
	pause := h.contained(func() (pause rest) {
		pause, left = h.worker.place(h.ctx, h.ordering, g)
		return pause
	})
	l.share(h)
	l.goOn(h, left, pause)
}

// withdrawLocked ends the worker's bid, and gives back a slot that came meanwhile.
func (h *handle) withdrawLocked() {
	if !h.bidding {
		return
	}
	h.bidding = false
	h.request.Withdraw()
	if h.grant != nil {
		h.grant.free()
		h.grant = nil
	}
}
