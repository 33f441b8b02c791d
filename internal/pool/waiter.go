package pool

import (
	"errors"
	"strconv"
	"time"
)

// waiter is one entry of the take queue: a caller, or all callers that wait with one
// Idempotency-Key.
type waiter struct {
	margin, need int64 // ms
	minTTL       int64 // ms, as in the request; an Idempotency-Key allows one min_ttl
	waits        bool
	endOnFailure bool // as of Request
	maxWaiting   int
	rate         int
	ratePer      int64  // ms
	ticket       string // "" = does not wait
	holder       string // this replica's part of a ticket that others can hold too
	once         string // the key in Redis of what its Idempotency-Key got; "" = no Idempotency-Key

	came time.Time // owned by serve: its arrival; zero = not to be reported, or reported

	// Guarded by the queue's mutex; arrival belongs to serve while asked is set.
	listeners []listener // its callers, in the order in which they came
	notices   []func()   // to be called once it is parked
	arrival   string     // the time of its ticket in Redis; "" without a ticket
	asked     bool       // part of the call under way
	parked    bool       // in takeQueue.parked
	done      bool       // answered, or gone
	outcome   int        // of a caller that left
	limited   error      // why it waits although the stock has tokens; nil = it has none
}

// listener receives the answer of one caller; its capacity is 1.
type listener chan answer

type answer struct {
	token   Token
	err     error
	limited error // with errParked: as waiter.limited
}

// isRequest reports whether this answer to a new caller counts as a request.
func (a answer) isRequest() bool {
	if a.err == nil {
		return a.token.Source != FromReplay
	}
	limited := (*RateError)(nil)
	return !errors.Is(a.err, ErrConflict) && !errors.As(a.err, &limited)
}

// departure is a ticket to be removed.
type departure struct {
	ticket  string
	holder  string // as of the waiter
	outcome int
}

// newWaiter prepares a request for its queue.
func (q *takeQueue) newWaiter(r Request, caller listener) *waiter {
	w := &waiter{
		margin: r.Margin.Milliseconds(), need: max(r.Margin, r.MinTTL).Milliseconds(),
		minTTL: r.MinTTL.Milliseconds(), waits: r.Wait > 0, endOnFailure: r.EndOnFailure, maxWaiting: r.MaxWaiting,
		rate: r.Rate, ratePer: r.RatePer.Milliseconds(), listeners: []listener{caller},
	}
	if q.tokens.onRequest != nil {
		w.came = time.Now()
	}
	if r.Parked != nil {
		w.notices = []func(){r.Parked}
	}
	// A ticket begins with the life that it needs, so that a script can judge the tickets of
	// other replicas. All callers with one key have one ticket, at every replica.
	switch {
	case r.Idempotency != "":
		key := onceName(r.Idempotency)
		w.once = q.once + key
		if w.waits {
			w.ticket = strconv.FormatInt(w.need, 10) + ":key:" + key
			w.holder = w.ticket + "|" + q.tokens.replica
		}
	case w.waits:
		w.ticket = strconv.FormatInt(w.need, 10) + ":" + q.tokens.replica + ":" +
			strconv.FormatInt(q.tokens.tickets.Add(1), 10)
	}
	return w
}

// immediate reports whether the waiter needs any token now. Most do, and they cost least.
func (w *waiter) immediate() bool { return !w.waits && w.once == "" && w.need <= w.margin }

// finishLocked answers the callers of a waiter, once. The first one gets the token, the others
// a replay of it.
func (q *takeQueue) finishLocked(w *waiter, with answer) {
	if w.done {
		return
	}
	q.endLocked(w)
	for _, listener := range w.listeners {
		listener <- with
		with.token.Source, with.token.Joined = FromReplay, true
	}
}

// endLocked ends a waiter, so that no further caller joins it.
func (q *takeQueue) endLocked(w *waiter) {
	w.done = true
	if w.once != "" && q.shared[w.once] == w {
		delete(q.shared, w.once)
	}
}

// parkLocked notes that a waiter holds a ticket, and calls Request.Parked of its callers.
func (w *waiter) parkLocked() {
	w.parked = true
	for _, notice := range w.notices {
		notice()
	}
	w.notices = nil
}
