package pool

import (
	"strconv"
	"time"
)

// waiter is an entry of the take queue: one caller, or all callers that wait with the same
// Idempotency-Key.
type waiter struct {
	margin, need int64 // ms
	minTTL       int64 // min_ttl of the request, ms; must be equal for all requests with one Idempotency-Key
	waits        bool
	until        time.Time // end of the wait of the first caller
	endOnFailure bool      // Request.EndOnFailure
	maxWaiting   int
	rate         int
	ratePer      int64  // ms
	ticket       string // name of the ticket; "" = the waiter never gets one
	holder       string // names this replica as a holder of a ticket that several replicas share; "" = no such ticket
	once         string // Redis key of the Idempotency-Key; "" = no Idempotency-Key

	// The queue's mutex guards the following fields. While the field asked is set, only the serve
	// loop uses the field arrival.
	listeners []listener // the callers, in the order of their arrival
	notices   []func()   // the callers' Request.Parked, until they are called
	arrival   string     // time of the ticket in Redis; "" = no ticket
	asked     bool       // whether the call in flight includes the waiter
	parked    bool       // whether takeQueue.parked contains the waiter
	done      bool       // whether the waiter was answered or all its callers left
	outcome   int        // outcome of the request if all callers left
	limited   error      // the *RateError if only the rate keeps a token from the waiter; nil = another reason
}

// listener receives the answer of one caller; its capacity is 1.
type listener chan answer

type answer struct {
	token   Token
	err     error
	limited error // new value of waiter.limited, if err is errParked
}

// departure is a ticket that the next call of take.lua removes.
type departure struct {
	ticket  string
	holder  string // waiter.holder
	outcome int
}

// newWaiter makes the waiter of one request.
func (q *takeQueue) newWaiter(r Request, caller listener) *waiter {
	w := &waiter{
		margin: r.Margin.Milliseconds(), need: max(r.Margin, r.MinTTL).Milliseconds(),
		minTTL: r.MinTTL.Milliseconds(), waits: r.Wait > 0, until: time.Now().Add(r.Wait), endOnFailure: r.EndOnFailure, maxWaiting: r.MaxWaiting,
		rate: r.Rate, ratePer: r.RatePer.Milliseconds(), listeners: []listener{caller},
	}
	if r.Parked != nil {
		w.notices = []func(){r.Parked}
	}
	// The name of a ticket begins with the minimum token life that its caller needs. So take.lua
	// knows which tokens fit the tickets of other replicas. All callers with one Idempotency-Key
	// share one ticket, even at different replicas.
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

// immediate reports whether the waiter accepts any fresh token and does not queue. Most waiters are
// immediate. They cost least.
func (w *waiter) immediate() bool { return !w.waits && w.once == "" && w.need <= w.margin }

// finishLocked answers the callers of a waiter at most once. The first caller gets the token. The
// other callers get replays of the token.
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

// endLocked ends a waiter. Later callers then cannot join it.
func (q *takeQueue) endLocked(w *waiter) {
	w.done = true
	if w.once != "" && q.shared[w.once] == w {
		delete(q.shared, w.once)
	}
}

// parkLocked records that the waiter has a ticket. parkLocked calls Request.Parked of each of its
// callers.
func (w *waiter) parkLocked() {
	w.parked = true
	for _, notice := range w.notices {
		notice()
	}
	w.notices = nil
}
