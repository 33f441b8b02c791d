package compat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/crash"
	"poold/internal/pool"
	"poold/internal/provider/wire"
	"poold/internal/purchase"
	"poold/internal/solve"
)

const (
	// guestWait is the longest wait of a guest's task; a caller of POST /solve has the same limit.
	guestWait = 5 * time.Minute
	// taskIdle is how long after the last submit or poll a replica still places orders for a guest's task.
	taskIdle = 30 * time.Second
	// refusalPatience is how long Submit waits for an early failure of a guest's task.
	refusalPatience = 300 * time.Millisecond
)

// Task is the part of a task that never changes.
type Task struct {
	Identity captcha.ID // the hash of the identity
	Type     captcha.Type
	Guest    bool // no target had the identity at the submit
	// Parameters is the identity of a guest without its proxy, as the record has it.
	Parameters captcha.Identity
}

// Terms describes how a task takes its token.
type Terms struct {
	// Request describes the take and the purchase. Tasks sets the name and the wait of its Call, and shares nothing.
	solve.Request
	// Reserve reserves the memory of a large picture until release is called; nil = there is none.
	Reserve func() (release func(), err error)
}

// Tasks manages the tasks. It is safe for concurrent use.
type Tasks struct {
	pool   *pool.Pool
	solver *solve.Solver
	log    *slog.Logger
	most   int // unfinished tasks of a caller; always pool.MostTasks except in tests

	mu     sync.Mutex
	guests map[captcha.ID]*time.Timer // ends the registration at the refiller
}

// New returns Tasks. It starts no goroutine.
func New(p *pool.Pool, solver *solve.Solver, log *slog.Logger) *Tasks {
	return &Tasks{pool: p, solver: solver, log: log, most: pool.MostTasks, guests: map[captcha.ID]*time.Timer{}}
}

// register makes this replica place orders for a guest for the next 30 s. It does nothing if the record lacks what the
// order needs: the bytes of a picture or a proxy.
func (t *Tasks) register(id captcha.ID, spec *purchase.Spec) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if timer := t.guests[id]; timer != nil && timer.Stop() {
		timer.Reset(taskIdle)
		return
	}
	if spec.ID != id || spec.Identity.Type == captcha.Image {
		return
	}
	release := t.solver.Refiller.Guest(*spec)
	var timer *time.Timer
	timer = time.AfterFunc(taskIdle, func() {
		release()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.guests[id] == timer { // a poll at this moment has replaced it
			delete(t.guests, id)
		}
	})
	t.guests[id] = timer
}

// Submit creates a task and returns its number. If the task would fail at once, Submit returns the cause instead.
func (t *Tasks) Submit(ctx context.Context, caller string, of captcha.Type, terms Terms) (number string, err error) {
	call := terms.call()
	record := pool.ClientTask{Caller: caller, ID: call.ID, Type: of}
	waits := terms.Guest != nil
	if waits {
		facts, _ := json.Marshal(terms.Guest.Identity) // omits the proxy
		record.Facts = string(facts)
	} else {
		stock, err := t.pool.Counts(ctx, pool.Query{ID: call.ID, Margin: call.Margin})
		if err != nil {
			return "", err
		}
		// Callers that waited before this one take the fresh tokens first.
		if waits = stock.Fresh <= stock.Waiting; waits && terms.isOut(ctx) {
			return "", NoSlot
		}
	}
	nonce := rand.Text()
	for added := false; !added; {
		record.Name = newNumber()
		var full bool
		added, full, err = t.pool.AddTask(ctx, &record, nonce, t.most)
		switch {
		case err != nil:
			return "", err
		case full:
			return "", NoSlot
		}
	}
	if !waits {
		return record.Name, nil
	}
	call.Name = record.Name
	if err = t.begin(ctx, &call, &terms); err != nil {
		t.pool.Cancel(&call) //nolint:contextcheck // it goes on when the client has hung up
		if gone := t.pool.DropTask(context.WithoutCancel(ctx), &record); gone != nil {
			t.log.Debug("a refused task is not forgotten; its record expires by itself", "err", gone)
		}
		return "", err
	}
	return record.Name, nil
}

// begin leaves the ticket of a new task, and makes this replica buy a token if necessary. After an error the task has
// failed.
func (t *Tasks) begin(ctx context.Context, call *pool.Call, terms *Terms) error {
	if terms.Guest == nil {
		_, err := t.pool.Take(ctx, call)
		return unlessWaiting(err)
	}
	call.Nonce = call.Name // of the request for the rate alone: a task is never a replay
	err := t.pool.Admit(ctx, call, terms.Rate)
	call.Nonce = ""
	if err != nil {
		return err
	}
	t.register(call.ID, terms.Guest)
	if _, err := t.pool.Take(ctx, call); !errors.Is(err, pool.ErrWaiting) {
		return err
	}
	if terms.Guest.Image != nil {
		release := func() {}
		if terms.Reserve != nil {
			if release, err = terms.Reserve(); err != nil {
				return NoSlot
			}
		}
		if _, err := t.solver.Supply(ctx, terms.Caller, terms.Guest, true, release); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(refusalPatience):
	}
	_, err = t.pool.Take(ctx, call)
	return unlessWaiting(err)
}

// unlessWaiting returns nil for an error after which the task may still get a token, and other errors unchanged.
func unlessWaiting(err error) error {
	if limited := (*pool.RateError)(nil); errors.Is(err, pool.ErrWaiting) || errors.As(err, &limited) {
		return nil
	}
	return err
}

// newNumber returns a random number of 11 digits, which the clients of every protocol accept as a number or as a text.
func newNumber() string {
	n, _ := rand.Int(rand.Reader, big.NewInt(9e10)) // rand.Reader never fails
	return n.Add(n, big.NewInt(1e10)).String()
}

// call returns the call of a task.
func (on *Terms) call() pool.Call {
	call := *on.Call
	call.Task, call.Wait, call.Fingerprint, call.Nonce = true, 0, "", ""
	call.MostTickets = max(1, call.MostTickets/2) // abandoned tasks leave room for callers that wait
	return call
}

func (on *Terms) isOut(ctx context.Context) bool { return on.Out != nil && on.Out(ctx) }

// Result is a solved task.
type Result struct {
	Token    pool.Token
	Identity captcha.ID
	Type     captcha.Type
	Made     time.Time // of the submit, on Redis' clock
}

// Poll returns the token of a task. It calls terms only if the task has not got its token yet. From the second
// delivery on, the source of the token is "replay". The error is a Cause, such as NotReady, or CauseOf maps it to a
// Cause.
func (t *Tasks) Poll(ctx context.Context, number, caller string, terms func(Task) (Terms, error)) (Result, error) {
	record, task, err := t.read(ctx, number, caller)
	if err != nil {
		return Result{}, err
	}
	result := Result{Identity: task.Identity, Type: task.Type, Made: record.Made}
	if record.Ended {
		result.Token, err = t.pool.Again(ctx, &pool.Call{Name: number, ID: record.ID})
		result.Token.Source = pool.FromReplay
		if empty := (*pool.EmptyError)(nil); errors.As(err, &empty) {
			err = UnknownTask // its token has expired
		}
		return result, err
	}
	on, err := terms(task)
	if err != nil {
		return Result{}, err
	}
	call := on.call()
	call.Name, call.ID = number, record.ID
	if on.Guest != nil {
		t.register(call.ID, on.Guest)
	}
	result.Token, err = t.pool.Take(ctx, &call)
	var failed *pool.FailedError
	var limited *pool.RateError
	switch {
	case err == nil:
		crash.At("taken")
	case errors.As(err, &limited):
		return Result{}, NotReady
	case errors.Is(err, pool.ErrWaiting) && task.Guest && record.Now.Sub(record.Made) > guestWait:
		failed = &pool.FailedError{Reason: fmt.Sprintf("no token came within %v", guestWait)}
		if err := t.pool.Fail(ctx, &call, failed); err != nil {
			return Result{}, err
		}
		err = failed
	case errors.Is(err, pool.ErrWaiting) && on.isOut(ctx):
		return Result{}, NoSlot
	case errors.Is(err, pool.ErrWaiting):
		return Result{}, NotReady
	case !errors.As(err, &failed):
		return Result{}, err
	}
	// The end is noted before the client gets the answer, so that a poll after the token's expiry takes no other token.
	first, noted := t.pool.EndTask(ctx, &record, result.Token.Order, rand.Text())
	if noted != nil {
		return Result{}, noted
	}
	crash.At("noted")
	switch {
	case !first:
		result.Token.Source = pool.FromReplay
	case task.Guest && result.Token.Source == pool.FromWait:
		result.Token.Source = pool.FromSolve
	}
	return result, err
}

// read reads a task of a caller.
func (t *Tasks) read(ctx context.Context, number, caller string) (pool.ClientTask, Task, error) {
	if _, ok := wire.TaskNumber(number); !ok {
		return pool.ClientTask{}, Task{}, BadID
	}
	record, known, err := t.pool.Task(ctx, number)
	switch {
	case err != nil:
		return record, Task{}, err
	case !known, record.Caller != caller:
		return record, Task{}, UnknownTask
	}
	task := Task{Type: record.Type}
	task.Identity, task.Guest = pool.IdentityOf(record.ID)
	if task.Guest {
		_ = json.Unmarshal([]byte(record.Facts), &task.Parameters) // Submit has written it
	}
	return record, task, nil
}

// Report returns a task, and the order whose token a poll of the task received, for a report on this token.
func (t *Tasks) Report(ctx context.Context, number, caller string) (task Task, order string, err error) {
	record, task, err := t.read(ctx, number, caller)
	if err == nil && record.Order == "" {
		err = NotReported
	}
	return task, record.Order, err
}
