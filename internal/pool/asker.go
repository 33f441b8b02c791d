package pool

// asker is one place in the line: that of a caller, or of all callers that wait
// with one Idempotency-Key.
type asker struct {
	margin, need int64 // ms
	minTTL       int64 // ms, as it was asked for: an Idempotency-Key belongs to it
	waits        bool
	maxWaiting   int
	rate         int
	window       int64  // ms
	ticket       string // "" = does not wait
	once         string // key of its receipt; "" = no Idempotency-Key

	// Guarded by the line's mutex; arrival belongs to serve while asked is set.
	ears     []ear  // its callers, in the order in which they came
	arrival  string // its place in Redis' queue; "" until it has one
	asked    bool   // part of the call under way
	parked   bool   // in line.parked
	done     bool   // answered, or gone
	timedOut bool   // gone because its wait was over: a miss
	held     error  // why it still waits, where that is not an empty pool
}

// ear is where one caller hears its answer; it has room for it.
type ear chan answer

// plain askers need nothing but a token; most are, and they cost least.
func (a *asker) plain() bool { return !a.waits && a.once == "" && a.need <= a.margin }

// finishLocked answers the callers of an asker, once. One of them got the token,
// the others get it again.
func (l *line) finishLocked(a *asker, with answer) {
	if a.done {
		return
	}
	l.endLocked(a)
	for _, ear := range a.ears {
		ear <- with
		with.token.Source = FromReplay
	}
}

// endLocked lets nobody join an asker any more.
func (l *line) endLocked(a *asker) {
	a.done = true
	if a.once != "" && l.shared[a.once] == a {
		delete(l.shared, a.once)
	}
}

type answer struct {
	token Token
	err   error
	held  error // with errParked: why, where that is not an empty pool
}

type leaver struct {
	ticket string
	holder string // this replica's part of a ticket that others can hold too
	missed bool
}
