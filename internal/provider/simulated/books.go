package simulated

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// books stores the sold tasks and counts calls and outcomes. All its methods are safe for
// concurrent use.
type books struct {
	opts *Options

	mu       sync.Mutex // guards everything below
	lots     *rand.Rand
	last     int64           // number of the newest task
	tasks    map[int64]*task // tasks by number; a task is deleted 5 min after its due time
	inFlight []*task         // sorted by due time
	settled  []*task         // tasks that are past their due time and not deleted yet, sorted by due time
	sold     []*task         // all sold tasks; used only with Options.Ledger
	totals   Totals
}

func newBooks(opts *Options, seed uint64) *books {
	b := &books{
		opts: opts, lots: randomOf(seed, orderStream), tasks: make(map[int64]*task),
		totals: Totals{ByAction: make(map[Action]int)},
	}
	b.last = 1_000_000_000 + b.lots.Int64N(8_000_000_000) // a random number of ten digits, like the ids of real services
	return b
}

// task is one accepted order. Its properties do not change after the sale. The mutex of books
// guards the counters.
type task struct {
	number   int64
	identity captcha.Identity
	id       captcha.ID
	legacy   bool // bought through the legacy protocol
	at, due  time.Time
	failed   bool
	lot      uint64 // seed of all random numbers of this task

	polls, collected int
	ping             pingback // zero = no pingback is sent
	pinged           int      // number of pingbacks that arrived
	reported         string   // good | bad; "" = no report yet
}

// order is the content of a submission, for both protocols.
type order struct {
	identity captcha.Identity
	bad      string // error code for a wrong key or an invalid parameter; "" = valid
	legacy   bool
	ping     pingback
}

// sell accepts an order and returns its task. If the order is refused, sell returns an error code.
func (b *books) sell(o order, at time.Time) (t *task, code string) {
	id := o.identity.ID()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(at)
	if code = o.bad; code == "" && b.opts.Threads > 0 && b.totals.InFlight >= b.opts.Threads {
		code = wire.CodeNoSlot
		if b.opts.Flavour == CaptchaAI {
			code = wire.CodeZeroBalance // captchaai uses this code if no thread is free
		}
	}
	if code != "" {
		b.totals.Refused++
		return nil, code
	}
	b.last++
	t = &task{number: b.last, identity: o.identity, id: id, legacy: o.legacy, at: at, lot: b.lots.Uint64()}
	t.due, t.failed = b.opts.draw(t)
	if o.ping.url != "" && (b.opts.PingShare == 0 || randomOf(t.lot, pingStream).Float64() < b.opts.PingShare) {
		t.ping = o.ping
	}
	b.tasks[t.number] = t
	i, _ := slices.BinarySearchFunc(b.inFlight, t.due, func(t *task, due time.Time) int { return t.due.Compare(due) })
	b.inFlight = slices.Insert(b.inFlight, i, t)
	if b.opts.Ledger {
		b.sold = append(b.sold, t)
	}
	b.totals.Submitted++
	b.totals.InFlight++
	b.totals.PeakInFlight = max(b.totals.PeakInFlight, b.totals.InFlight)
	return t, ""
}

// draw randomly chooses the due time of a task and whether the task is unsolvable.
func (o *Options) draw(t *task) (due time.Time, failed bool) {
	lot := randomOf(t.lot, lotStream)
	lead := time.Duration(float64(o.Median) * math.Exp(o.Sigma*lot.NormFloat64()))
	lead = max(lead, o.Min)
	if o.Max > 0 {
		lead = min(lead, o.Max)
	}
	return t.at.Add(lead), lot.Float64() < o.FailShare
}

// outcome is the state of one task at one time.
type outcome struct {
	code  string // the error code; "" if there is a token
	token string
	task  task // a copy; zero for an unknown number
}

// poll counts a poll and returns the outcome of the task. For an unknown number the
// outcome contains an error code.
func (b *books) poll(number int64, at time.Time) outcome {
	b.mu.Lock()
	b.advanceLocked(at)
	o := b.lookLocked(number, at)
	b.mu.Unlock()
	if o.code == "" {
		o.token = o.task.token(b.opts) // outside the lock, because this is expensive
	}
	return o
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
		b.totals.Collected++
	} else {
		b.totals.Repeated++
	}
	return outcome{task: *t}
}

// report records a report about a solved task, or returns an error code. Each task
// accepts only one report.
func (b *books) report(id string, v wire.Verdict, at time.Time) (code string) {
	n, ok := wire.TaskNumber(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(at)
	t := b.tasks[n]
	switch {
	case !ok:
		return wire.CodeIDFormat
	case t == nil, v.Fits != nil && !v.Fits(t.identity.Type): // the call is valid only for other types of CAPTCHA
		return wire.CodeUnknownTask
	case t.failed || at.Before(t.due):
		return wire.CodeNotRecorded
	case t.reported != "":
		return wire.CodeDuplicate
	}
	t.reported = map[bool]string{true: "good", false: "bad"}[v.Good]
	return ""
}

// advanceLocked brings the books to the given time: it frees the threads of tasks that are due, and
// deletes old tasks.
func (b *books) advanceLocked(at time.Time) {
	for len(b.inFlight) > 0 && !at.Before(b.inFlight[0].due) {
		t := b.inFlight[0]
		b.inFlight = b.inFlight[1:]
		b.totals.InFlight--
		if t.failed {
			b.totals.Failed++
		} else {
			b.totals.Solved++
		}
		b.settled = append(b.settled, t)
	}
	for len(b.settled) > 0 && at.Sub(b.settled[0].due) >= keep {
		delete(b.tasks, b.settled[0].number)
		b.settled[0] = nil // lets the garbage collector free the task
		b.settled = b.settled[1:]
	}
}

// pingOutcome returns the outcome for a task's pingback.
func (b *books) pingOutcome(t *task) outcome {
	b.mu.Lock()
	o := outcome{task: *t}
	b.mu.Unlock()
	if o.task.failed {
		o.code = wire.CodeUnsolvable
	} else {
		o.token = o.task.token(b.opts)
	}
	return o
}

// countPinged counts a delivered pingback of a task.
func (b *books) countPinged(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.pinged++
}
