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
	minTTL       int64 // ms, as it was asked for: an Idempotency-Key belongs to it
	waits        bool
	told         bool // as of Request
	maxWaiting   int
	rate         int
	ratePer      int64  // ms
	ticket       string // "" = does not wait
	holder       string // this replica's part of a ticket that others can hold too
	once         string // the key in Redis of what its Idempotency-Key got; "" = no Idempotency-Key

	came time.Time // serve's: when it came; zero = nobody wants to know, or it is told already

	// Guarded by the queue's mutex; arrival belongs to serve while asked is set.
	listeners []listener // its callers, in the order in which they came
	notices   []func()   // to be called once it is parked
	arrival   string     // when it came, as Redis' queue knows it; "" until it is in there
	asked     bool       // part of the call under way
	parked    bool       // in takeQueue.parked
	done      bool       // answered, or gone
	outcome   int        // of a request that is gone: what it counts as
	held      error      // why it still waits, where that is not an empty pool
}

// listener is where one caller hears its answer; it has room for it.
type listener chan answer

type answer struct {
	token Token
	err   error
	held  error // with errParked: why, where that is not an empty pool
}

// isRequest reports whether take.lua counts a new caller that is answered so.
func (a answer) isRequest() bool {
	if a.err == nil {
		return a.token.Source != FromReplay
	}
	limited := (*RateError)(nil)
	return !errors.Is(a.err, ErrConflict) && !errors.As(a.err, &limited)
}

// departure is a ticket to be given up.
type departure struct {
	ticket  string
	holder  string // as of the waiter
	outcome int
}

// newWaiter prepares a request for its queue.
func (q *takeQueue) newWaiter(r Request, caller listener) *waiter {
	w := &waiter{
		margin: r.Margin.Milliseconds(), need: max(r.Margin, r.MinTTL).Milliseconds(),
		minTTL: r.MinTTL.Milliseconds(), waits: r.Wait > 0, told: r.EndOnFailure, maxWaiting: r.MaxWaiting,
		rate: r.Rate, ratePer: r.RatePer.Milliseconds(), listeners: []listener{caller},
	}
	if q.tokens.onRequest != nil {
		w.came = time.Now()
	}
	// The life it needs stands in front of a ticket, so that a script can judge
	// those of other replicas. All callers with one key have one ticket, everywhere.
	if r.Parked != nil {
		w.notices = []func(){r.Parked}
	}
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

// immediate waiters need nothing but a token; most are, and they cost least.
func (w *waiter) immediate() bool { return !w.waits && w.once == "" && w.need <= w.margin }

// finishLocked answers the callers of a waiter, once. One of them got the token,
// the others get it again.
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

// endLocked lets nobody join a waiter any more.
func (q *takeQueue) endLocked(w *waiter) {
	w.done = true
	if w.once != "" && q.shared[w.once] == w {
		delete(q.shared, w.once)
	}
}

// parkLocked notes that a waiter holds a ticket, and tells its callers.
func (w *waiter) parkLocked() {
	w.parked = true
	for _, notice := range w.notices {
		notice()
	}
	w.notices = nil
}
