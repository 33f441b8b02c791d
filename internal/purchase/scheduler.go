package purchase

import (
	"cmp"
	"container/heap"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"poold/internal/panics"
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
	bid    Bid
	places [2]int // indexes in the heaps of the scheduler; -1 if the request is not pending
}

// Change replaces the bid. Changing a bid after its slot was granted is a no-op.
func (r *Request) Change(bid Bid) {
	q := r.scheduler
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.places[byWorth] < 0 || r.bid == bid {
		return
	}
	r.bid = bid
	for i := range q.waiting {
		heap.Fix(&q.waiting[i], r.places[i])
	}
}

// Withdraw ends the request. It returns false if the slot was granted or is about to be granted.
func (r *Request) Withdraw() bool {
	q := r.scheduler
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.places[byWorth] < 0 {
		return false
	}
	q.removeLocked(r)
	if q.waiting[byWorth].Len() == 0 {
		select {
		case q.emptied <- struct{}{}:
		default:
		}
	}
	return true
}

// The kinds of heaps in a scheduler.
const (
	byWorth = iota // the best bid first
	bySince        // the longest wait first
)

// requests is a heap of requests. Each request stores its index in the heap.
type requests struct {
	list []*Request
	heap int // byWorth or bySince
}

func (h *requests) Len() int           { return len(h.list) }
func (h *requests) Less(i, j int) bool { return h.list[i].before(h.list[j], h.heap == bySince) }

func (h *requests) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].places[h.heap], h.list[j].places[h.heap] = i, j
}

// Push implements heap.Interface.
func (h *requests) Push(x any) {
	r := x.(*Request)
	r.places[h.heap] = len(h.list)
	h.list = append(h.list, r)
}

// Pop implements heap.Interface.
func (h *requests) Pop() any {
	last := len(h.list) - 1
	r := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	r.places[h.heap] = -1
	return r
}

// scheduler grants slots to requests, one at a time. The best bid comes first. Among equal bids, the
// earlier request comes first. Its goroutine runs while requests are pending.
type scheduler struct {
	accounts *accounts
	emptied  chan struct{} // wakes the goroutine of the scheduler after the last request was withdrawn

	mu      sync.Mutex
	running bool // the goroutine of the scheduler is running
	granted int  // number of slots granted so far
	number  uint64
	waiting [2]requests // two heaps of the same requests, byWorth and bySince
	// served maps each target to its last turn at a provider that refused all submits.
	served map[string]time.Time
}

func newScheduler(as *accounts) *scheduler {
	q := &scheduler{accounts: as, emptied: make(chan struct{}, 1), served: map[string]time.Time{}}
	q.waiting[bySince].heap = bySince
	return q
}

// request adds a request; see Buyer.Request.
func (q *scheduler) request(bid Bid, onSlot func(*Slot, error)) *Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.number++
	r := &Request{scheduler: q, number: q.number, granted: onSlot, bid: bid}
	for i := range q.waiting {
		heap.Push(&q.waiting[i], r)
	}
	if !q.running {
		q.running = true
		go q.run()
	}
	return r
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
		case <-q.emptied:
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
	for q.waiting[byWorth].Len() > 0 {
		// The provider's readiness is checked only while a request is pending, because the check may use
		// up the only probe that is allowed per minute.
		var slot *Slot
		var err error
		slot, wait, changed, err = q.accounts.nextSlot()
		if slot == nil && err == nil {
			return wait, changed
		}
		r := q.nextLocked(slot)
		q.removeLocked(r)
		if slot != nil {
			q.granted++
		}
		go r.granted(slot, err)
	}
	q.running = false
	return 0, nil
}

// nextLocked returns the request that gets the slot. If the provider refuses all submits, the
// targets take turns, regardless of their bids.
func (q *scheduler) nextLocked(slot *Slot) *Request {
	if slot != nil && q.accounts.isBounded(slot.account) {
		r := slices.MinFunc(q.waiting[bySince].list, func(a, b *Request) int {
			return cmp.Or(q.served[a.bid.For].Compare(q.served[b.bid.For]), a.bid.Since.Compare(b.bid.Since), cmp.Compare(a.number, b.number))
		})
		slot.used = func() { q.recordTurn(r.bid.For) }
		return r
	}
	if q.granted%fairTurn == fairTurn-1 {
		return q.waiting[bySince].list[0]
	}
	return q.waiting[byWorth].list[0]
}

// recordTurn records that a target had its turn at a provider that refuses all submits.
func (q *scheduler) recordTurn(target string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now()
	maps.DeleteFunc(q.served, func(_ string, last time.Time) bool { return at.Sub(last) > servedFor })
	q.served[target] = at
}

func (q *scheduler) removeLocked(r *Request) {
	for i := range q.waiting {
		heap.Remove(&q.waiting[i], r.places[i])
	}
}

// nextSlot takes a slot of the first account that is ready and not full. If there is no such account,
// it returns how long to wait and a channel that is closed when an account changes.
func (as *accounts) nextSlot() (slot *Slot, wait time.Duration, changed <-chan struct{}, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			panics.Log(as.log, "panic in a provider", cause)
			err = panics.ErrFault
		}
	}()
	at := time.Now()
	offers, changed := as.offers(at)
	if len(offers) == 0 {
		return nil, 0, nil, ErrNoProvider
	}
	chosen, wait := choose(offers, at)
	if chosen == nil {
		return nil, wait, changed, nil
	}
	return as.take(chosen), 0, changed, nil
}
