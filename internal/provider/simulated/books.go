package simulated

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// books stores the sold tasks. All its methods are safe for concurrent use.
type books struct {
	opts *Options

	mu    sync.Mutex // guards everything below
	lots  *rand.Rand
	last  int64   // number of the newest task
	tasks []*Task // tasks with the numbers up to last
}

func newBooks(opts *Options, seed uint64) *books {
	b := &books{opts: opts, lots: randomOf(seed, orderStream)}
	b.last = 1_000_000_000 + b.lots.Int64N(8_000_000_000) // a random number of ten digits, like the ids of real services
	return b
}

// Task is one accepted order. Its properties do not change after the sale, but its counters do.
type Task struct {
	Number   int64
	Identity captcha.Identity
	ID       captcha.ID // ID of Identity
	At, Due  time.Time
	Failed   bool // whether the task is unsolvable

	Polls, Collected int    // numbers of polls and of polls that got the token
	Reported         string // good | bad; "" = no report yet

	legacy bool   // bought through the legacy protocol
	lot    uint64 // seed of all random numbers of this task
}

// sell accepts an order and returns its task. If the order is refused, sell returns an error code;
// bad is the code for a wrong key or an invalid parameter.
func (b *books) sell(identity captcha.Identity, legacy bool, bad string, at time.Time) (_ Task, code string) {
	if bad != "" {
		return Task{}, bad
	}
	id := identity.ID()
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.tasks) > 0 && at.Sub(b.tasks[0].Due) >= b.opts.Keep {
		b.tasks[0] = nil // lets the garbage collector free the task
		b.tasks = b.tasks[1:]
	}
	if b.opts.Threads > 0 && b.workingLocked(at) >= b.opts.Threads {
		if b.opts.Flavour == CaptchaAI {
			return Task{}, wire.CodeZeroBalance // captchaai uses this code if no thread is free
		}
		return Task{}, wire.CodeNoSlot
	}
	b.last++
	t := &Task{Number: b.last, Identity: identity, ID: id, legacy: legacy, At: at, lot: b.lots.Uint64()}
	t.Due, t.Failed = b.opts.draw(t)
	b.tasks = append(b.tasks, t)
	return *t, ""
}

// draw randomly chooses the due time of a task and whether the task is unsolvable.
func (o *Options) draw(t *Task) (due time.Time, failed bool) {
	lot := randomOf(t.lot, lotStream)
	lead := time.Duration(float64(o.Median) * math.Exp(o.Sigma*lot.NormFloat64()))
	lead = max(lead, o.Min)
	if o.Max > 0 {
		lead = min(lead, o.Max)
	}
	return t.At.Add(lead), lot.Float64() < o.FailShare
}

// working returns the number of tasks in flight.
func (b *books) working(at time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.workingLocked(at)
}

func (b *books) workingLocked(at time.Time) (n int) {
	for _, t := range b.tasks {
		if at.Before(t.Due) {
			n++
		}
	}
	return n
}

// findLocked returns the task with a number, or nil.
func (b *books) findLocked(number int64, at time.Time) *Task {
	i := number - b.last + int64(len(b.tasks)) - 1
	if i < 0 || i >= int64(len(b.tasks)) || at.Sub(b.tasks[i].Due) >= b.opts.Keep {
		return nil
	}
	return b.tasks[i]
}

// poll counts a poll and returns the task, or the error code of a task without a token.
func (b *books) poll(number int64, at time.Time) (_ Task, code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.findLocked(number, at)
	if t == nil {
		return Task{}, wire.CodeUnknownTask
	}
	t.Polls++
	switch {
	case at.Before(t.Due):
		return Task{}, wire.CodeNotReady
	case t.Failed:
		return Task{}, wire.CodeUnsolvable
	}
	t.Collected++
	return *t, ""
}

// report records a report about a solved task, or returns an error code. Each task
// accepts only one report.
func (b *books) report(id string, v wire.Verdict, at time.Time) (code string) {
	n, ok := wire.TaskNumber(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.findLocked(n, at)
	switch {
	case !ok:
		return wire.CodeIDFormat
	case t == nil, v.Fits != nil && !v.Fits(t.Identity.Type): // the call is valid only for other types of CAPTCHA
		return wire.CodeUnknownTask
	case t.Failed || at.Before(t.Due):
		return wire.CodeNotRecorded
	case t.Reported != "":
		return wire.CodeDuplicate
	}
	t.Reported = map[bool]string{true: "good", false: "bad"}[v.Good]
	return ""
}

func (b *books) list() []Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	tasks := make([]Task, len(b.tasks))
	for i, t := range b.tasks {
		tasks[i] = *t
	}
	return tasks
}
