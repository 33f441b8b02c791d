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
	// mostImmediate and mostWaiters bound the work of one script call.
	mostImmediate = 128
	mostWaiters   = 500
	// pollEvery is how often waiting callers ask without a wake-up. It also keeps their
	// tickets alive, which expire after 2 s.
	pollEvery = 500 * time.Millisecond
	// receiptLife is how long a take can be retried. The tokens in its reply expire earlier.
	receiptLife = 10 * time.Minute
)

var (
	errNothing = errors.New("pool: nothing for this caller")
	errFull    = errors.New("pool: too many callers wait")
	errParked  = errors.New("pool: the caller holds a ticket")

	errForgotten = errors.New("pool: the queue is forgotten")
)

// takeQueue is the queue of this replica's callers of one identity. Callers that
// arrive while a script call is under way go together in the next one, so that
// under load Redis does a fraction of the work and an idle daemon adds no
// delay. One call is under way at a time, because the receipt holds the reply of the last call
// alone.
type takeQueue struct {
	tokens *Tokens
	id     captcha.ID
	keys   []string      // of take.lua, before the ones of Idempotency-Keys
	once   string        // begins the keys of Idempotency-Keys
	bell   chan struct{} // wakes serve while it sleeps; capacity 1

	mu         sync.Mutex
	shared     map[string]*waiter // waiters with an Idempotency-Key, by waiter.once
	newcomers  []*waiter          // not asked for yet
	parked     []*waiter          // hold a ticket, in the order of their arrival
	round      []*waiter          // parked waiters that have not asked in this round yet
	began      time.Time          // when the last round began
	awake      bool               // a token landed: begin the next round after this one
	departures []departure        // tickets to be given up
	serving    bool               // a goroutine runs serve
	stuck      bool               // the last call has no answer yet; the queue refuses new callers
	refused    bool               // Redis refused the last call
	forgotten  bool               // was idle and takes no callers any more; see Tokens.forget
	idleSince  time.Time          // while serve does not run
	look       *sharedLook        // the last one; nil = none
}

// join adds a caller to the queue and starts serve if needed. It returns the caller's waiter: a
// new one, or the one of the callers that wait with the same Idempotency-Key.
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

// serveLocked wakes the goroutine that runs serve, or starts it.
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

// forget ends a queue that was idle for this long; false if it was not.
func (q *takeQueue) forget(at time.Time, idle time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgotten = q.forgotten || !q.serving && at.Sub(q.idleSince) >= idle
	return q.forgotten
}

// wake makes the parked callers ask now.
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
		if w.endOnFailure {
			w.outcome = outcomeRefused
		}
		q.finishLocked(w, answer{err: ErrClosed})
		if !w.asked {
			q.departLocked(w)
		}
	}
	q.parked = nil
	q.ring()
}

// abandon removes a caller that stops waiting: it hung up, was refused, or its wait is over. A
// token that is on its way to it goes back into the stock. It returns what kept the token from
// the caller: errNothing or a *RateError.
func (q *takeQueue) abandon(w *waiter, mine listener, outcome int) error {
	q.mu.Lock()
	if w.done {
		q.mu.Unlock()
		// The answer came in this moment.
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
		// With a call under way, deliver sees that it is done; without a ticket, next
		// skips it.
		if !w.asked && w.arrival != "" {
			q.unparkLocked(w)
			q.departLocked(w)
			_ = q.serveLocked() // a closed store has no tickets left to give up
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
