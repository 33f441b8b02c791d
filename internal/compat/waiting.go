package compat

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"poold/internal/crash"
	"poold/internal/ondemand"
	"poold/internal/panics"
	"poold/internal/pool"
)

const (
	// mostWaiting limits the number of tasks that wait at one replica.
	mostWaiting = 4096
	// holdEvery is the interval between two renewals of the tasks' leases: a quarter of taskLease.
	holdEvery = 500 * time.Millisecond
	// noteLimit limits the time for writing the end of a task to its record.
	noteLimit = 2 * time.Second
	// refusalPatience is how long Submit waits for an early failure of a guest's task.
	refusalPatience = 300 * time.Millisecond
)

// waiter is a task that waits for its token at this replica.
type waiter struct {
	tasks  *Tasks
	task   Task
	number string
	end    context.CancelFunc // gives the task up
	parked chan struct{}      // closed when the task holds a ticket
	done   chan struct{}      // closed when the fields token and err are set
	token  pool.Token
	err    error

	// Guarded by Tasks.mu.
	polls     int  // polls in progress
	served    bool // the task got a token, and done is closed soon
	delivered bool // a poll has returned the end of the task
}

// find returns the waiter of a task, or nil if the task does not wait at this replica. The caller
// must call await on a non-nil waiter.
func (t *Tasks) find(number string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waiting[number]
	if w != nil {
		w.polls++
	}
	return w
}

// begin returns the waiter of a task. If the task has no waiter, begin creates one and starts the
// wait. If polled is true, the caller must call await on the waiter.
func (t *Tasks) begin(number string, task Task, terms Terms, polled bool) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waiting[number]
	switch {
	case w != nil:
	case t.closed:
		return nil, Stopping
	case len(t.waiting) >= mostWaiting:
		return nil, NoSlot
	default:
		ctx, end := context.WithCancel(t.working)
		w = &waiter{tasks: t, task: task, number: number, end: end, parked: make(chan struct{}), done: make(chan struct{})}
		t.waiting[number] = w
		release := func() {}
		if terms.Hold != nil {
			release = terms.Hold()
		}
		t.waiters.Go(func() {
			defer release()
			defer end()
			t.wait(ctx, w, terms)
		})
	}
	if polled {
		w.polls++
	}
	return w, nil
}

// wait takes a token for a task and writes the end of the task to its record.
func (t *Tasks) wait(ctx context.Context, w *waiter, terms Terms) {
	token, err := t.get(ctx, w, terms)
	if err == nil {
		crash.At("taken")
	}
	t.mu.Lock()
	delivered := w.polls > 0
	w.served = err == nil
	t.mu.Unlock()
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	var unnoted error
	switch cause := CauseOf(err); {
	case err == nil:
		unnoted = t.records.Serve(noting, w.number, token.Order, delivered)
	case cause == Unsolvable:
		unnoted = t.records.Fail(noting, w.number, failedUnsolvable)
	case cause == Refused:
		unnoted = t.records.Fail(noting, w.number, failedRefused)
	default:
		unnoted = t.records.Release(noting, w.number)
	}
	if unnoted != nil { // the next poll finds the receipt of the take
		t.log.Debug("end of a client's task not recorded", "task", w.number, "err", unnoted)
	}
	crash.At("noted")
	t.mu.Lock()
	delete(t.waiting, w.number)
	t.mu.Unlock()
	w.token, w.err = token, err
	close(w.done)
}

func (t *Tasks) get(ctx context.Context, w *waiter, terms Terms) (token pool.Token, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			panics.Log(t.log, "panic while taking for a client's task", cause)
			err = Broken
		}
	}()
	r := terms.Take
	r.Idempotency = idempotency(w.task.Caller, w.number)
	r.Parked = func() { close(w.parked) }
	if terms.Guest != nil {
		token, err = t.solver.Solve(ctx, ondemand.Request{Take: r, Guest: terms.Guest})
	} else {
		if terms.Supply != nil {
			terms.Supply.Attend(ctx, &r)
		} else {
			r.EndOnFailure = true
			t.watchGuest(ctx, &r)
		}
		token, err = t.stock.Take(ctx, r)
	}
	var empty *pool.EmptyError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return token, NotReady // this replica gives the task up
	case terms.Supply == nil && errors.As(err, &empty) && !empty.Full:
		return token, Unsolvable // no token can come
	}
	return token, err
}

// watchGuest ends the wait for a guest's token when the stock has neither tokens nor orders. The
// stock itself cannot end the wait if the order failed before the task held a ticket.
func (t *Tasks) watchGuest(ctx context.Context, r *pool.Request) {
	over := make(chan struct{})
	r.Over = over
	id, margin := r.ID, r.Margin
	t.waiters.Go(func() { // Run waits for this goroutine
		defer close(over)
		ticker := time.NewTicker(holdEvery)
		defer ticker.Stop()
		// The stock must be empty in two checks in a row, because the first check may come just after the token
		// was taken for this task.
		for gone := 0; gone < 2; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			stock, err := t.stock.Look(ctx, id, margin, 0)
			if err == nil && stock.Fresh+stock.Orders == 0 {
				gone++
			} else {
				gone = 0
			}
		}
	})
}

// await returns the token or the error with which the task ended. await returns NotReady when the
// task holds a ticket and has not ended.
func (w *waiter) await(ctx context.Context) (pool.Token, error) {
	why := error(NotReady)
	select {
	case <-w.done:
		return w.deliver()
	case <-ctx.Done():
		why = ctx.Err()
	case <-w.parked:
	}
	w.tasks.mu.Lock()
	served := w.served
	if !served && w.polls > 0 {
		w.polls--
	}
	w.tasks.mu.Unlock()
	if served {
		<-w.done // the method wait closes this channel soon
		return w.deliver()
	}
	return pool.Token{}, why
}

// deliver returns the token or the error of the task. From the second call on, the source of the
// token is "replay".
func (w *waiter) deliver() (pool.Token, error) {
	w.tasks.mu.Lock()
	defer w.tasks.mu.Unlock()
	token := w.token
	if w.delivered {
		token.Source = pool.FromReplay
	}
	w.delivered = true
	return token, w.err
}

// awaitTicket waits until the task holds a ticket. After that it waits for the duration `patience`.
// If the task ends earlier, awaitTicket returns the task's error.
func (w *waiter) awaitTicket(ctx context.Context, patience time.Duration) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.parked:
	}
	if patience == 0 {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.err
	case <-timer.C:
		return nil
	}
}

// release ends this replica's lease of a task that has no waiter.
func (t *Tasks) release(number string) {
	ctx, cancel := context.WithTimeout(context.Background(), noteLimit)
	defer cancel()
	if err := t.records.Release(ctx, number); err != nil {
		t.log.Debug("client's task not released; its lease expires by itself", "task", number, "err", err)
	}
}

// Run renews the leases of the waiting tasks until ctx ends. After ctx has ended, Run gives the
// tasks up, so that other replicas can hold the tasks, and waits for all goroutines. Run must be
// called at most once.
func (t *Tasks) Run(ctx context.Context) error {
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			t.mu.Lock()
			t.closed = true
			t.mu.Unlock()
			t.stop()
			t.waiters.Wait()
			return nil
		case <-ticker.C:
			t.renewLeases(ctx)
		}
	}
}

// renewLeases renews the leases of the waiting tasks. renewLeases gives up tasks that are no longer
// polled and tasks that another replica holds.
func (t *Tasks) renewLeases(ctx context.Context) {
	t.mu.Lock()
	numbers := slices.Collect(maps.Keys(t.waiting))
	t.mu.Unlock()
	if len(numbers) == 0 {
		return
	}
	notHeld, err := t.records.Hold(ctx, numbers)
	if err != nil && ctx.Err() == nil {
		t.log.Debug("leases of clients' tasks not renewed", "tasks", len(numbers), "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, number := range notHeld {
		if w := t.waiting[number]; w != nil {
			w.end()
		}
	}
}
