package simulated

import (
	"cmp"
	"math"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// Task is one accepted order. Its properties do not change after the sale, but its counters do.
type Task struct {
	Number   int64
	Identity captcha.Identity
	ID       captcha.ID // ID of Identity
	At, Due  time.Time
	Failed   bool // whether the task is unsolvable

	Polls, Collected int    // numbers of polls and of polls that got the token
	Reported         string // good | bad; "" = no report yet

	lot uint64 // seed of all random numbers of this task
}

// sell accepts an order and returns its task, or an error code if no thread is free.
func (s *Service) sell(identity captcha.Identity, at time.Time) (_ Task, code string) {
	id := identity.ID()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.tasks) > 0 && at.Sub(s.tasks[0].Due) >= s.opts.Keep {
		s.tasks[0] = nil // lets the garbage collector free the task
		s.tasks = s.tasks[1:]
	}
	if s.opts.Threads > 0 && s.workingLocked(at) >= s.opts.Threads {
		return Task{}, wire.CodeNoSlot
	}
	s.last++
	t := &Task{Number: s.last, Identity: identity, ID: id, At: at, lot: s.lots.Uint64()}
	lot := randomOf(t.lot)
	factor := min(max(math.Exp(s.opts.Sigma*lot.NormFloat64()), 1.0/3), 20.0/3)
	lead := time.Duration(float64(s.opts.Median) * factor)
	t.Due, t.Failed = at.Add(lead), lot.Float64() < s.opts.FailShare
	s.tasks = append(s.tasks, t)
	return *t, ""
}

// workingLocked returns the number of tasks in flight.
func (s *Service) workingLocked(at time.Time) (n int) {
	for _, t := range s.tasks {
		if at.Before(t.Due) {
			n++
		}
	}
	return n
}

// threads returns the response to threadsinfo.
func (s *Service) threads(at time.Time) wire.ThreadsAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	threads, working := cmp.Or(s.opts.Threads, manyThreads), s.workingLocked(at)
	return wire.ThreadsAnswer{Status: 1, Threads: threads, Working: working, Free: max(0, threads-working)}
}

// findLocked returns the task with an id, or an error code.
func (s *Service) findLocked(id string, at time.Time) (_ *Task, code string) {
	number, ok := wire.TaskNumber(id)
	i := number - s.last + int64(len(s.tasks)) - 1
	switch {
	case !ok:
		return nil, wire.CodeIDFormat
	case i < 0 || i >= int64(len(s.tasks)) || at.Sub(s.tasks[i].Due) >= s.opts.Keep:
		return nil, wire.CodeUnknownTask
	}
	return s.tasks[i], ""
}

// poll counts a poll and returns the task, or the error code of a task without a token.
func (s *Service) poll(id string, at time.Time) (_ Task, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, code := s.findLocked(id, at)
	if t == nil {
		return Task{}, code
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
func (s *Service) report(id string, accepted bool, at time.Time) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, code := s.findLocked(id, at)
	switch {
	case t == nil:
		return code
	case t.Failed || at.Before(t.Due):
		return wire.CodeNotRecorded
	case t.Reported != "":
		return wire.CodeDuplicate
	}
	t.Reported = map[bool]string{true: "good", false: "bad"}[accepted]
	return ""
}

// Tasks returns copies of the tasks in the order of their sales.
func (s *Service) Tasks() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := make([]Task, len(s.tasks))
	for i, t := range s.tasks {
		tasks[i] = *t
	}
	return tasks
}
