package pool

import (
	"errors"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// mostImmediate and mostWaiters bound what one script call has to do.
	mostImmediate = 128
	mostWaiters   = 500
	// pollEvery is how often waiting callers ask although nothing woke them; it
	// also keeps their tickets alive, which other replicas forget after 2 s.
	pollEvery = 500 * time.Millisecond
	// receiptLife is how long the answer of a take can be asked for again. Any
	// token in it that matters dies earlier.
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
// delay. One call is under way at a time; that is what makes its receipt, which
// remembers the last call alone, enough.
type takeQueue struct {
	tokens *Tokens
	id     captcha.ID
	keys   []string      // of take.lua, before those of Idempotency-Keys
	once   string        // begins the keys of Idempotency-Keys
	bell   chan struct{} // wakes serve while it sleeps; capacity 1

	mu         sync.Mutex
	shared     map[string]*waiter // those that wait with an Idempotency-Key, by waiter.once
	newcomers  []*waiter          // not asked for yet
	parked     []*waiter          // hold a ticket, in the order of their arrival
	round      []*waiter          // those of parked that are still to be asked in this round
	began      time.Time          // when the last round began
	awake      bool               // something landed: begin a round as soon as this one is over
	departures []departure        // tickets to be given up
	serving    bool               // a goroutine runs serve
	stuck      bool               // the last call has no answer yet; nobody else is let in
	refused    bool               // Redis refused the last call
	forgotten  bool               // idle for so long that nobody is let in any more; see Tokens.forget
	idleSince  time.Time          // while nobody serves
	look       *sharedLook        // the last one; nil = none
}

// join puts a caller into the queue and makes sure that somebody serves it. It
// answers the caller's waiter: a new one, or that of the callers that wait with its key
// already.
func (q *takeQueue) join(w *waiter) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.forgotten {
		return nil, errForgotten
	}
	if q.stuck {
		return nil, ErrDown
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

// serveLocked rings for the goroutine that serves the queue, or starts it.
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

// forget ends a queue that was idle for so long, and is false where it was not.
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

// sendAway answers everybody who waits with ErrClosed.
func (q *takeQueue) sendAway() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.parked {
		w.parked = false
		if w.told {
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

// abandon is called by a caller that stops listening: it hung up, it was refused, or its
// wait is over. Whatever is on its way to it goes back. It answers what kept the caller
// from a token: errNothing, or a *RateError.
func (q *takeQueue) abandon(w *waiter, mine listener, outcome int) error {
	q.mu.Lock()
	if w.done {
		q.mu.Unlock()
		// The answer came in the very moment.
		if got := <-mine; got.err == nil {
			q.tokens.giveBack(got.token)
		}
		return errNothing
	}
	defer q.mu.Unlock()
	w.listeners = slices.DeleteFunc(w.listeners, func(other listener) bool { return other == mine })
	if len(w.listeners) == 0 {
		q.endLocked(w)
		if w.held == nil {
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
	if w.held != nil {
		return w.held
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
