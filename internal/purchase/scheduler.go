package purchase

import (
	"context"
	"slices"
	"sync"
	"time"

	"poold/internal/provider"
)

const (
	// An admission looks at the providers again at least this often, because
	// their state can change without anybody telling of it.
	lookAgain = time.Second
	// and at most this often, where a provider names no delay.
	lookSoonest = 50 * time.Millisecond
	// fullFor is how long a provider that other replicas have filled is left
	// alone before one order asks again.
	fullFor = 200 * time.Millisecond
)

// fairTurn: of so many places one goes to the target that has waited longest,
// whatever others bid, so that nobody goes without for ever.
const fairTurn = 4

// Bid says how much a place is worth to a target.
type Bid struct {
	Callers bool      // callers wait for the token: they come first
	Worth   float64   // callers whom the order is expected to save a wait, weighted
	Since   time.Time // when the target began to wait for this place
}

// beats reports whether the place is b's rather than the other's.
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

// scheduler gives slots to bids, one admission at a time: the best bid is served first,
// and among equals the one that came first. A sync.Mutex would neither keep an order nor
// let a caller walk away.
type scheduler struct {
	accounts *accounts

	mu      sync.Mutex
	serving bool      // an admission is under way
	places  int       // given so far
	waiting []*bidder // in the order in which they came
}

// bidder is an admission that waits for its turn.
type bidder struct {
	Bid
	turn chan struct{} // closed when it is that caller's turn
}

// enter waits for the caller's turn. Without an error the caller must leave.
func (q *scheduler) enter(ctx context.Context, bid Bid) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if !q.serving {
		q.serving = true
		q.mu.Unlock()
		return nil
	}
	mine := &bidder{Bid: bid, turn: make(chan struct{})}
	q.waiting = append(q.waiting, mine)
	q.mu.Unlock()

	select {
	case <-mine.turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, mine); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		// The turn came in the same moment; it goes to the next one.
		q.nextLocked()
	}
	return ctx.Err()
}

// first reports whether the place to come is that of the caller who is served: it
// is not where somebody with a better bid has come meanwhile.
func (q *scheduler) first(bid Bid) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	best := q.bestLocked()
	return best < 0 || !q.waiting[best].beats(bid, q.fairLocked())
}

// placed notes that the caller who is served got its place.
func (q *scheduler) placed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places++
}

// leave lets the next one in.
func (q *scheduler) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nextLocked()
}

func (q *scheduler) nextLocked() {
	best := q.bestLocked()
	if best < 0 {
		q.serving = false
		return
	}
	close(q.waiting[best].turn)
	q.waiting = slices.Delete(q.waiting, best, best+1)
}

// bestLocked is who waits with the best bid; -1 where nobody does.
func (q *scheduler) bestLocked() int {
	best := -1
	for i, w := range q.waiting {
		if best < 0 || w.beats(q.waiting[best].Bid, q.fairLocked()) {
			best = i
		}
	}
	return best
}

func (q *scheduler) fairLocked() bool { return q.places%fairTurn == fairTurn-1 }

// admit waits for a slot, see Buyer.Admit.
func (q *scheduler) admit(ctx context.Context, bid Bid) (*Slot, error) {
	for {
		if slot, err := q.serve(ctx, bid); slot != nil || err != nil {
			return slot, err
		}
	}
}

// serve waits for the caller's turn and then for a slot. It answers nil where the
// next one has become another's.
func (q *scheduler) serve(ctx context.Context, bid Bid) (*Slot, error) {
	if err := q.enter(ctx, bid); err != nil {
		return nil, err
	}
	defer q.leave()
	for {
		// Before a provider is asked: its answer may be the one probe of the minute.
		if !q.first(bid) {
			return nil, nil
		}
		at := time.Now()
		offers, changed := q.accounts.offers(at)
		if len(offers) == 0 {
			return nil, ErrNoProvider
		}
		chosen, wait := choose(offers, at)
		if chosen != nil {
			q.placed()
			return q.accounts.take(chosen), nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// offer is an account as an admission saw it, so that the provider is asked
// without a lock held.
type offer struct {
	*account
	full  bool
	after time.Duration // full: how long until it is worth looking again
}

// offers lists the accounts and the channel that tells of the next change.
func (as *accounts) offers(at time.Time) ([]offer, <-chan struct{}) {
	as.mu.Lock()
	defer as.mu.Unlock()
	offers := make([]offer, len(as.listed))
	for i, a := range as.listed {
		offers[i] = offer{account: a}
		if a.taken >= a.limitLocked() {
			offers[i].full, offers[i].after = true, lookAgain
		} else if wait := a.fullUntil.Sub(at); wait > 0 {
			offers[i].full, offers[i].after = true, wait
		}
	}
	return offers, as.changed
}

// choose picks the first account that is ready and not full; nil and a time to
// wait where there is none.
func choose(offers []offer, at time.Time) (*account, time.Duration) {
	wait := lookAgain
	for _, o := range offers {
		if o.full {
			// A full provider is not asked whether it is ready: while it is
			// paused that question hands out its one probe a minute, which
			// would then go unused. One that is well is worth waiting for.
			if o.State(at).Kind == provider.StateOK {
				return nil, min(wait, o.after)
			}
			continue
		}
		ready, after := o.Ready(at)
		if ready {
			return o.account, 0
		}
		wait = min(wait, max(after, lookSoonest))
	}
	return nil, wait
}

// take books a slot. Of admissions only the one that is served takes, so nobody else can
// have filled the account since it was chosen; adopted orders take beyond its limit.
func (as *accounts) take(a *account) *Slot {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.taken++
	return &Slot{accounts: as, account: a}
}

// Slot is the right to have one order under way at one provider. The zero
// value is a slot of nobody.
type Slot struct {
	accounts *accounts
	account  *account
	freed    bool // guarded by accounts.mu
}

// Free gives the slot back; doing so twice is harmless.
func (s *Slot) Free() {
	if s.accounts == nil {
		return
	}
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	// Mostly a place in Redis was given back with it, so it is worth asking.
	s.freeLocked(time.Time{})
}

// full gives the slot back because the account takes no order of any replica for a time.
func (s *Slot) full(wait time.Duration) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.freeLocked(time.Now().Add(wait))
}

// freeLocked gives the slot back and leaves the account alone until then.
func (s *Slot) freeLocked(fullUntil time.Time) {
	if s.freed {
		return
	}
	s.freed = true
	s.account.taken--
	s.account.fullUntil = fullUntil
	s.accounts.notifyLocked()
}
