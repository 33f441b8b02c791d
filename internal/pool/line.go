package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// mostPlain and mostAskers bound what one script call has to do.
	mostPlain  = 128
	mostAskers = 500
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
)

// line is the queue of this replica's callers of one identity. Callers that
// arrive while a script call is under way go together in the next one, so that
// under load Redis does a fraction of the work and an idle daemon adds no
// delay. One call is under way at a time; that is what makes its receipt, which
// remembers the last call alone, enough.
type line struct {
	tokens *Tokens
	id     captcha.ID
	keys   keys
	bell   chan struct{} // wakes serve while it sleeps; capacity 1

	mu        sync.Mutex
	shared    map[string]*asker // those that wait with an Idempotency-Key, by their receipt
	fresh     []*asker          // not asked for yet
	parked    []*asker          // hold a ticket, in the order of their arrival
	round     []*asker          // those of parked that are still to be asked in this round
	began     time.Time         // when the last round began
	awake     bool              // something landed: begin a round as soon as this one is over
	leaving   []leaver          // tickets to be given up
	serving   bool              // a goroutine runs serve
	stuck     bool              // the last call has no answer yet; nobody else is let in
	refused   bool              // Redis refused the last call
	back      []unwanted        // tokens that Redis did not take back yet
	returning bool              // a goroutine runs returnAll

	look     sync.Mutex // guards the three below
	looked   Stock
	lookErr  error
	lookedAt time.Time
}

// join puts a caller into the line and makes sure that somebody serves it. It
// answers the caller's place: a new one, or that of the callers that wait with its
// key already.
func (l *line) join(a *asker) (*asker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck {
		return nil, ErrDown
	}
	shares := a.waits && a.once != ""
	if twin := l.shared[a.once]; shares && twin != nil {
		if twin.minTTL != a.minTTL {
			return nil, ErrConflict
		}
		twin.ears = append(twin.ears, a.ears...)
		return twin, nil
	}
	l.fresh = append(l.fresh, a)
	if err := l.serveLocked(); err != nil {
		return nil, err
	}
	if shares {
		l.shared[a.once] = a
	}
	return a, nil
}

// holder names this replica's part of a ticket that several can hold.
func (l *line) holder(a *asker) string {
	if a.ticket == "" || a.once == "" {
		return ""
	}
	return a.ticket + "|" + l.tokens.replica
}

// serveLocked rings for the goroutine that serves the line, or starts it.
func (l *line) serveLocked() error {
	if l.serving {
		l.ring()
		return nil
	}
	if !l.tokens.spawn(l.serve) {
		return ErrClosed
	}
	l.serving = true
	return nil
}

func (l *line) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// wake makes the parked callers ask now.
func (l *line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parked) > 0 {
		l.awake = true
		l.ring()
	}
}

// sendAway answers everybody who waits with ErrClosed.
func (l *line) sendAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.parked {
		a.parked = false
		l.finishLocked(a, answer{err: ErrClosed})
		if !a.asked {
			l.leaveLocked(a)
		}
	}
	l.parked = nil
	l.ring()
}

// abandon is called by a caller that stops listening: it hung up, or its wait
// is over (missed). Whatever is on its way to it goes back. It answers what kept
// the caller from a token: errNothing, or a *RateError.
func (l *line) abandon(ctx context.Context, a *asker, e ear, missed bool) error {
	l.mu.Lock()
	if a.done {
		l.mu.Unlock()
		// The answer came in the very moment.
		if got := <-e; got.err == nil {
			l.giveBack(ctx, got.token)
		}
		return errNothing
	}
	defer l.mu.Unlock()
	a.ears = slices.DeleteFunc(a.ears, func(other ear) bool { return other == e })
	if len(a.ears) == 0 {
		l.endLocked(a)
		a.timedOut = missed && a.held == nil
		// With a call under way, settle sees that it is done; without a ticket, next
		// skips it.
		if !a.asked && a.arrival != "" {
			l.unparkLocked(a)
			l.leaveLocked(a)
			_ = l.serveLocked() // a closed store has no tickets left to give up
		}
	}
	if a.held != nil {
		return a.held
	}
	return errNothing
}

func (l *line) leaveLocked(a *asker) {
	l.leaving = append(l.leaving, leaver{ticket: a.ticket, holder: l.holder(a), missed: a.timedOut})
}

func (l *line) unparkLocked(a *asker) {
	if a.parked {
		a.parked = false
		l.parked = slices.DeleteFunc(l.parked, func(other *asker) bool { return other == a })
	}
}
