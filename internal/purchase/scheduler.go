package purchase

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/purchase/queue"
	"poold/internal/refill/policy/worth"
)

const (
	// recheckEvery is the longest interval between two checks of the providers' states while a request
	// is pending. A state can change without a notification.
	recheckEvery = time.Second
	// After a provider was not ready, the scheduler waits at least shortestRecheck before the next
	// check.
	shortestRecheck = 50 * time.Millisecond
	// This replica tries no order for the time fullFor at a provider that other replicas have filled.
	fullFor = 200 * time.Millisecond
	// servedFor is how long a target's turn is remembered if the provider refuses all submits.
	servedFor = time.Hour
)

// Of fairTurn slots, one goes to the oldest request, regardless of the bids, so that no request
// starves.
const fairTurn = 4

// Bid says how much a slot is worth to a target.
type Bid struct {
	Callers bool      // callers wait for the token; such a bid precedes bids without callers
	Worth   float64   // weighted number of callers that need not wait because of this order
	Since   time.Time // when the target began to wait for the slot
	For     string    // the target, or GuestTarget for guests; see scheduler.served

	// These fields decide which provider gets the order.
	Type     captcha.Type
	Policy   worth.Policy  // "" = worth.Ordered
	Afford   time.Duration // how long the token may take before a caller waits for it
	MaxWaste float64       // the target's setting max_waste
	Patience time.Duration // how long the caller can still wait; 0 = unknown
}

// beats reports whether b precedes the given bid. If fair is true, only the waiting time counts.
func (b Bid) beats(other Bid, fair bool) bool {
	switch {
	case fair || b.Callers && other.Callers:
		return b.Since.Before(other.Since)
	case b.Callers != other.Callers:
		return b.Callers
	case b.Worth != other.Worth:
		return b.Worth > other.Worth
	}
	return b.Since.Before(other.Since)
}

// before reports whether r is served earlier than the given request.
func (r *Request) before(other *Request, fair bool) bool {
	if r.bid.beats(other.bid, fair) {
		return true
	}
	return !other.bid.beats(r.bid, fair) && r.number < other.number
}

// Request is a pending bid for a slot. The zero value is not pending.
type Request struct {
	scheduler *scheduler
	number    uint64 // sequence number of arrival
	granted   func(*Slot, error)

	// Guarded by the scheduler's mu.
	bid   Bid
	entry queue.Entry[*Request] // place in the scheduler's queue
}

// Change replaces the bid. Changing a bid after its slot was granted is a no-op.
func (r *Request) Change(bid Bid) {
	q := r.scheduler
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !r.entry.Has() || r.bid == bid {
		return
	}
	r.bid = bid
	q.waiting.Fix(&r.entry)
}

// Withdraw ends the request. It returns false if the slot was granted or is about to be granted.
func (r *Request) Withdraw() bool {
	q := r.scheduler
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !r.entry.Has() {
		return false
	}
	q.waiting.Remove(&r.entry)
	if q.waiting.Len() == 0 {
		q.wakeLocked()
	}
	return true
}

// The orders of the scheduler's queue.
const (
	byWorth = iota // the best bid first
	bySince        // the longest wait first
)

// scheduler grants slots to requests, one at a time. The best bid comes first. Among equal bids, the
// earlier request comes first. Its goroutine runs while requests are pending.
type scheduler struct {
	accounts *accounts
	chooser  Chooser       // nil = every order goes to the first provider that is up
	wake     chan struct{} // wakes the goroutine of the scheduler

	mu      sync.Mutex
	running bool // the goroutine of the scheduler is running
	granted int  // number of slots granted so far
	number  uint64
	waiting *queue.Queue[*Request] // sorted byWorth and bySince
	// served maps each target to its last turn at a provider that refused all submits.
	served map[string]time.Time
}

func newScheduler(as *accounts) *scheduler {
	return &scheduler{
		accounts: as, wake: make(chan struct{}, 1), served: map[string]time.Time{},
		waiting: queue.New(
			func(a, b *Request) bool { return a.before(b, false) },
			func(a, b *Request) bool { return a.before(b, true) },
		),
	}
}

// request adds a request; see Buyer.Request.
func (q *scheduler) request(bid Bid, onSlot func(*Slot, error)) *Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.number++
	r := &Request{scheduler: q, number: q.number, granted: onSlot, bid: bid}
	r.entry.Value = r
	q.waiting.Add(&r.entry)
	if !q.running {
		q.running = true
		go q.run()
	} else if q.chooser != nil { // the pending requests may wait for another provider than this one
		q.wakeLocked()
	}
	return r
}

func (q *scheduler) wakeLocked() {
	select {
	case q.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// admit waits for a slot, see Buyer.Admit.
func (q *scheduler) admit(ctx context.Context, bid Bid) (*Slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type answer struct {
		slot *Slot
		err  error
	}
	answers := make(chan answer, 1)
	r := q.request(bid, func(slot *Slot, err error) { answers <- answer{slot, err} })
	select {
	case a := <-answers:
		return a.slot, a.err
	case <-ctx.Done():
	}
	if !r.Withdraw() {
		if a := <-answers; a.slot != nil {
			a.slot.Free()
		}
	}
	return nil, ctx.Err()
}

// run runs in the scheduler's goroutine and grants slots until no request is pending.
func (q *scheduler) run() {
	for {
		wait, changed := q.grantFree()
		if changed == nil {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-q.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// grantFree grants the slots that are free now. If requests remain, it returns how long to wait and a
// channel that is closed when an account changes. The channel is nil if no request is pending.
func (q *scheduler) grantFree() (wait time.Duration, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.waiting.Len() > 0 {
		// The provider's readiness is checked only while a request is pending, because the check may use
		// up the only probe that is allowed per minute.
		g := q.nextLocked()
		if g.request == nil {
			return g.wait, g.changed
		}
		q.waiting.Remove(&g.request.entry)
		if g.slot != nil {
			q.granted++
		}
		go g.request.granted(g.slot, g.err)
	}
	q.running = false
	return 0, nil
}

// grant is the request that gets a slot or an error. If request is nil, wait is the time until the
// next check, and changed is closed when an account changes.
type grant struct {
	request *Request
	slot    *Slot
	err     error
	wait    time.Duration
	changed <-chan struct{}
}

// lookAhead is the number of requests that are tried for a slot. A request waits while the provider
// that its policy chooses is full. Requests that prefer another provider need not wait for it.
const lookAhead = 64

// nextLocked returns the first request for which the provider that its policy chooses has a slot.
func (q *scheduler) nextLocked() (g grant) {
	by := byWorth
	if q.granted%fairTurn == fairTurn-1 {
		by = bySince
	}
	tried, r := 0, (*Request)(nil)
	defer func() {
		if cause := recover(); cause != nil {
			panics.Log(q.accounts.log, "panic in a provider", cause)
			g = grant{request: cmp.Or(r, q.firstLocked(by)), err: panics.ErrFault}
		}
	}()
	at := time.Now()
	offers, changed := q.accounts.offers(at)
	if len(offers) == 0 {
		return grant{request: q.firstLocked(by), err: ErrNoProvider}
	}
	g = grant{wait: recheckEvery, changed: changed}
	full := false // no provider is free for the policy worth.Ordered
	for e := range q.waiting.Sorted(by) {
		r = e.Value
		ordered := q.chooser == nil || r.bid.Policy != worth.Cheapest && r.bid.Policy != worth.Best
		if tried++; tried > lookAhead {
			return g
		}
		if ordered && full {
			continue
		}
		var chosen chosen
		if ordered {
			chosen = choose(offers, at)
			full = chosen.account == nil
		} else {
			chosen = chooseBy(q.chooser, r.bid, offers, at)
		}
		if chosen.account != nil {
			return q.grantLocked(r, chosen)
		}
		g.wait = min(g.wait, chosen.wait)
	}
	return g
}

func (q *scheduler) firstLocked(by int) *Request {
	for e := range q.waiting.Sorted(by) {
		return e.Value
	}
	return nil
}

// grantLocked takes a slot for a request. If the provider refuses all submits, the targets take turns,
// regardless of their bids and of the choice.
func (q *scheduler) grantLocked(r *Request, c chosen) grant {
	slot := q.accounts.take(c.account)
	slot.choice = c.choice
	if q.accounts.isBounded(c.account) {
		r = slices.MinFunc(q.waiting.All(), func(x, y *queue.Entry[*Request]) int {
			a, b := x.Value, y.Value
			return cmp.Or(q.served[a.bid.For].Compare(q.served[b.bid.For]), a.bid.Since.Compare(b.bid.Since), cmp.Compare(a.number, b.number))
		}).Value
		slot.used = func() { q.recordTurn(r.bid.For) }
	}
	if bid := r.bid; q.chooser != nil && bid.Policy == worth.Best {
		slot.placed = func() { q.chooser.Placed(bid.Type, bid.Callers) }
	}
	return grant{request: r, slot: slot}
}

// recordTurn records that a target had its turn at a provider that refuses all submits.
func (q *scheduler) recordTurn(target string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now()
	maps.DeleteFunc(q.served, func(_ string, last time.Time) bool { return at.Sub(last) > servedFor })
	q.served[target] = at
}
