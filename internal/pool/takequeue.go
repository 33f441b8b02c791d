package pool

import (
	"errors"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// mostImmediate and mostWaiters limit the work of one script call.
	mostImmediate = 128
	mostWaiters   = 500
	// pollEvery is the interval at which a queue calls take.lua for its pending callers if no wake-up
	// comes. The calls also refresh the callers' tickets, which expire after 2 s.
	pollEvery = 500 * time.Millisecond
	// receiptLife is how long a take can be retried.
	receiptLife = 10 * time.Minute
)

var (
	errNothing = errors.New("pool: nothing for this caller")
	errFull    = errors.New("pool: too many callers wait")
	errParked  = errors.New("pool: the caller holds a ticket")

	errForgotten = errors.New("pool: the queue is forgotten")
)

// takeQueue contains this replica's callers of one identity. Callers that arrive during a call of
// take.lua share the next call. So a busy daemon makes few calls, and an idle daemon adds no delay. A
// queue makes one call at a time, because the receipt stores only the reply of the last call.
type takeQueue struct {
	tokens *Tokens
	id     captcha.ID
	keys   []string      // keys of take.lua, without the keys of Idempotency-Keys
	once   string        // prefix of the keys of Idempotency-Keys
	bell   chan struct{} // wakes the serve loop; capacity 1

	mu         sync.Mutex
	shared     map[string]*waiter // waiters with an Idempotency-Key; the map's keys are waiter.once
	newcomers  []*waiter          // waiters that no call has included yet
	parked     []*waiter          // waiters with a ticket, in the order of their arrival
	round      []*waiter          // parked waiters that are not yet included in a call of this round
	began      time.Time          // start of the last round
	awake      bool               // whether a wake-up came, so that the next round follows directly
	departures []departure        // tickets that the next call removes
	serving    bool               // whether a goroutine runs the serve loop
	stuck      bool               // whether the last call still lacks a reply, so that the queue refuses new callers
	refused    bool               // whether Redis refused the last call
	forgotten  bool               // whether the queue was idle and accepts no more callers; see Tokens.forget
	idleSince  time.Time          // end of the last serve loop
	look       *sharedLook        // the last shared look; nil = none
}

// join adds a waiter to the queue and starts the serve loop if needed. If other callers already wait
// with the same Idempotency-Key, join adds the new caller to the existing waiter and returns that
// waiter.
func (q *takeQueue) join(w *waiter) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.forgotten {
		return nil, errForgotten
	}
	if q.stuck {
		return nil, redisdb.ErrDown
	}
	shares := w.waits && w.once != ""
	if twin := q.shared[w.once]; shares && twin != nil {
		if twin.minTTL != w.minTTL {
			return nil, ErrConflict
		}
		twin.listeners = append(twin.listeners, w.listeners...)
		twin.notices = append(twin.notices, w.notices...)
		if twin.parked {
			twin.parkLocked()
		}
		return twin, nil
	}
	q.newcomers = append(q.newcomers, w)
	if err := q.serveLocked(); err != nil {
		return nil, err
	}
	if shares {
		q.shared[w.once] = w
	}
	return w, nil
}

// serveLocked wakes the serve loop, or starts a goroutine for it.
func (q *takeQueue) serveLocked() error {
	if q.serving {
		q.ring()
		return nil
	}
	if !q.tokens.spawn(q.serve) {
		return ErrClosed
	}
	q.serving = true
	return nil
}

func (q *takeQueue) ring() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

// forget marks the queue as forgotten if it has been idle for the given time. The result is whether
// the queue is now forgotten.
func (q *takeQueue) forget(at time.Time, idle time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgotten = q.forgotten || !q.serving && at.Sub(q.idleSince) >= idle
	return q.forgotten
}

// wake begins a new round of calls for the parked callers.
func (q *takeQueue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parked) > 0 {
		q.awake = true
		q.ring()
	}
}

// endWaits answers every waiting caller with ErrClosed.
func (q *takeQueue) endWaits() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.parked {
		w.parked = false
		q.closeLocked(w)
		if !w.asked {
			q.departLocked(w)
		}
	}
	q.parked = nil
	q.ring()
}

// closeLocked answers a waiter with ErrClosed. A request for a guest counts as refused.
func (q *takeQueue) closeLocked(w *waiter) {
	if w.endOnFailure && !w.done {
		w.outcome = outcomeRefused
	}
	q.finishLocked(w, answer{err: ErrClosed})
}

// abandon removes a caller that stops waiting because it hung up, was refused, or reached the end of
// its wait. If the caller already got a token, the token goes back into the stock. The result is the
// reason why the caller has no token: errNothing or a *RateError.
func (q *takeQueue) abandon(w *waiter, mine listener, outcome int) error {
	q.mu.Lock()
	if w.done {
		q.mu.Unlock()
		// The waiter got its answer just before abandon was called.
		if got := <-mine; got.err == nil {
			q.tokens.returnToken(got.token)
		}
		return errNothing
	}
	defer q.mu.Unlock()
	w.listeners = slices.DeleteFunc(w.listeners, func(other listener) bool { return other == mine })
	if len(w.listeners) == 0 {
		q.endLocked(w)
		if w.limited == nil {
			w.outcome = outcome
		}
		// If the call in flight includes the waiter, deliver removes the ticket. takeCall.admit
		// skips a waiter without a ticket.
		if !w.asked && w.arrival != "" {
			q.unparkLocked(w)
			q.departLocked(w)
			_ = q.serveLocked() // a closed store has no tickets to remove
		}
	}
	if w.limited != nil {
		return w.limited
	}
	return errNothing
}

func (q *takeQueue) departLocked(w *waiter) {
	q.departures = append(q.departures, departure{ticket: w.ticket, holder: w.holder, outcome: w.outcome})
}

func (q *takeQueue) unparkLocked(w *waiter) {
	if w.parked {
		w.parked = false
		q.parked = slices.DeleteFunc(q.parked, func(other *waiter) bool { return other == w })
	}
}
