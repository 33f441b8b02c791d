package simulated

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// books record the sales and their outcomes. All methods are safe for concurrent use.
type books struct {
	opts *Options

	mu      sync.Mutex // guards everything below
	lots    *rand.Rand
	last    int64           // number of the newest task
	tasks   map[int64]*task // by number; callers know no others
	working taskHeap        // in flight, the earliest due first
	settled []*task         // due and not yet forgotten, the earliest due first
	sold    []*task         // every sale; only with Options.Ledger
	totals  Totals
	limits  limits
}

func newBooks(opts *Options, seed uint64) *books {
	b := &books{
		opts: opts, lots: dice(seed, orderStream), tasks: make(map[int64]*task),
		totals: Totals{ByAction: make(map[Action]int)}, limits: newLimits(opts),
	}
	// Ten digits, as real ids have.
	b.last = 1_000_000_000 + b.lots.Int64N(8_000_000_000)
	return b
}

// task is one accepted order. Its facts are fixed at the submit; the counters
// are guarded by books.mu.
type task struct {
	number   int64
	identity captcha.Identity
	id       captcha.ID
	legacy   bool // bought by that protocol
	at, due  time.Time
	failed   bool
	lot      uint64 // seed of everything that is drawn for this task

	polls, collected int
	ping             pingback // that is to be sent; zero = none
	pings, pinged    int      // that were tried, that arrived
	firstCollected   time.Time
	report           string // good | bad; "" = none yet
}

// order is a submit as either protocol gives it.
type order struct {
	key      string
	identity captcha.Identity
	bad      string // what is wrong with the parameters; "" = nothing
	legacy   bool
	ping     pingback
}

// sell sells one task or says why not.
func (b *books) sell(o order, at time.Time) (t *task, code string) {
	id := o.identity.ID()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(at)
	if code := b.judgeLocked(o, at); code != "" {
		b.totals.Refused++
		return nil, code
	}
	b.last++
	t = &task{number: b.last, identity: o.identity, id: id, legacy: o.legacy, at: at, lot: b.lots.Uint64()}
	t.due, t.failed = b.opts.draw(t)
	if o.ping.url != "" && b.opts.pings(t) {
		t.ping = o.ping
		if b.opts.PingEarly {
			t.due = at
		}
	}
	b.tasks[t.number] = t
	heap.Push(&b.working, t)
	if b.opts.Ledger {
		b.sold = append(b.sold, t)
	}
	b.limits.submits++
	b.totals.Submitted++
	b.totals.InFlight++
	b.totals.PeakInFlight = max(b.totals.PeakInFlight, b.totals.InFlight)
	return t, ""
}

// judgeLocked gives the code that an order is refused with, "" if it is
// accepted. The account comes before the parameters, these before capacity.
func (b *books) judgeLocked(o order, at time.Time) string {
	if o.legacy && b.limits.tooManyTurns(at) {
		return "MAX_USER_TURN"
	}
	if code := b.limits.admit(o.key, at); code != "" {
		return code
	}
	if o.bad != "" {
		return o.bad
	}
	if b.opts.Threads > 0 && b.totals.InFlight >= b.opts.Threads {
		if b.opts.Flavour == CaptchaAI {
			return wire.CodeZeroBalance // which means threads there, not money
		}
		return wire.CodeNoSlot
	}
	return ""
}

// draw decides a task's fate.
func (o *Options) draw(t *task) (due time.Time, failed bool) {
	lot := dice(t.lot, lotStream)
	lead := time.Duration(float64(o.Median) * math.Exp(o.Sigma*lot.NormFloat64()))
	lead = max(lead, o.Min)
	if o.Max > 0 {
		lead = min(lead, o.Max)
	}
	return t.at.Add(lead), lot.Float64() < o.FailShare
}

// pings reports whether a task's pingback is among those that are sent.
func (o *Options) pings(t *task) bool {
	return o.PingShare == 0 || dice(t.lot, pingStream).Float64() < o.PingShare
}

// outcome is the result of one poll of one task.
type outcome struct {
	code  string // not "": instead of a token
	token string
	task  task // a copy; zero for an unknown one
}

// poll looks at tasks by number, in the order given; number 0 is never known.
// A refusal of the whole call comes as code.
func (b *books) poll(key string, numbers []int64, at time.Time) (found []outcome, code string) {
	b.mu.Lock()
	b.advanceLocked(at)
	if code := b.limits.admit(key, at); code != "" {
		b.mu.Unlock()
		return nil, code
	}
	found = make([]outcome, len(numbers))
	for i, number := range numbers {
		found[i] = b.lookLocked(number, at)
	}
	b.mu.Unlock()
	// Tokens are long: they are made outside the lock.
	for i := range found {
		if found[i].code == "" {
			found[i].token = found[i].task.token(b.opts)
		}
	}
	return found, ""
}

func (b *books) lookLocked(number int64, at time.Time) outcome {
	t, known := b.tasks[number]
	if !known {
		return outcome{code: wire.CodeUnknownTask}
	}
	t.polls++
	switch {
	case at.Before(t.due):
		return outcome{code: wire.CodeNotReady, task: *t}
	case t.failed:
		return outcome{code: wire.CodeUnsolvable, task: *t}
	}
	t.collected++
	if t.collected == 1 {
		t.firstCollected = at
		b.totals.Collected++
	} else {
		b.totals.Repeated++
	}
	return outcome{task: *t}
}

// advanceLocked brings the books to the given time: tasks that are due free
// their thread, tasks that are old are forgotten. Each is touched once in its
// life for either, whatever the number of calls.
func (b *books) advanceLocked(at time.Time) {
	for len(b.working) > 0 && !at.Before(b.working[0].due) {
		t, _ := heap.Pop(&b.working).(*task)
		b.totals.InFlight--
		if t.failed {
			b.totals.Failed++
		} else {
			b.totals.Solved++
		}
		b.settled = append(b.settled, t)
	}
	for len(b.settled) > 0 && at.Sub(b.settled[0].due) >= b.opts.Keep {
		delete(b.tasks, b.settled[0].number)
		b.settled[0] = nil
		b.settled = b.settled[1:]
	}
}

// admit checks a key; "" lets the call in.
func (b *books) admit(key string, at time.Time) (code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limits.admit(key, at)
}

// polled records one res.php call.
func (b *books) polled(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits.polled(at)
}

// pinging records an attempt to deliver a task's pingback, and returns its content.
func (b *books) pinging(t *task) *outcome {
	b.mu.Lock()
	t.pings++
	o := &outcome{task: *t}
	b.mu.Unlock()
	if o.task.failed {
		o.code = wire.CodeUnsolvable
	} else {
		o.token = o.task.token(b.opts)
	}
	return o
}

// pinged records that it arrived.
func (b *books) pinged(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.pinged++
}

// taskHeap is a heap by due time.
type taskHeap []*task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h taskHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	t, _ := x.(*task)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
