package compat

import (
	"context"
	"errors"
	"time"

	"poold/internal/crash"
	"poold/internal/ondemand"
	"poold/internal/panics"
	"poold/internal/pool"
)

const (
	// mostWaiting is how many tasks may wait at one replica.
	mostWaiting = 4096
	// holdEvery is how often their leases are renewed, which last four times as long.
	holdEvery = 500 * time.Millisecond
	// noteLimit bounds what is written down of a task when its wait is over.
	noteLimit = 2 * time.Second
	// refusalPatience is how long the submit of a guest waits for a reason why nothing can
	// be bought for it.
	refusalPatience = 300 * time.Millisecond
)

// waiter is a task that waits for its token here.
type waiter struct {
	task   Task
	number string
	end    context.CancelFunc // gives it up
	parked chan struct{}      // closed once it holds a ticket
	done   chan struct{}      // closed once what follows stands
	token  pool.Token
	err    error

	tasks *Tasks
	// Guarded by Tasks.mu.
	ears   int  // calls that wait to hear its end
	served bool // it got a token; done follows
	heard  bool // somebody was told
}

// find is the waiter of a task, which the caller must hear; nil = there is none here.
func (t *Tasks) find(number string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waiting[number]
	if w != nil {
		w.ears++
	}
	return w
}

// begin has a task wait, or finds it waiting. The caller must hear it; polled: it will tell
// its client what it hears.
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
		w = &waiter{task: task, number: number, end: end, parked: make(chan struct{}), done: make(chan struct{}), tasks: t}
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
		w.ears++
	}
	return w, nil
}

// wait takes for a task, and writes down how that ended.
func (t *Tasks) wait(ctx context.Context, w *waiter, terms Terms) {
	token, err := t.get(ctx, w, terms)
	if err == nil {
		crash.At("taken")
	}
	t.mu.Lock()
	heard := w.ears > 0
	w.served = err == nil
	t.mu.Unlock()
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	var unnoted error
	switch cause := CauseOf(err); {
	case err == nil:
		unnoted = t.records.Serve(noting, w.number, token.Order, heard)
	case cause == Unsolvable:
		unnoted = t.records.Fail(noting, w.number, failedUnsolvable)
	case cause == Refused:
		unnoted = t.records.Fail(noting, w.number, failedRefused)
	default:
		unnoted = t.records.LetGo(noting, w.number)
	}
	if unnoted != nil { // the receipt of the take says the same to the next poll
		t.log.Debug("the end of a client's task is not written down", "err", unnoted)
	}
	crash.At("noted")
	t.mu.Lock()
	delete(t.waiting, w.number)
	t.mu.Unlock()
	w.token, w.err = token, err
	close(w.done)
}

// get takes a token for a task.
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
		return token, NotReady // it is given up, here
	case terms.Supply == nil && errors.As(err, &empty) && !empty.Full:
		return token, Unsolvable // nothing came, and nothing will
	}
	return token, err
}

// watchGuest ends the wait for a guest's order that is no more: it ended while nobody
// waited.
func (t *Tasks) watchGuest(ctx context.Context, r *pool.Request) {
	over := make(chan struct{})
	r.Over = over
	id, margin := r.ID, r.Margin
	t.waiters.Go(func() { // which waits for this one's wait too
		defer close(over)
		ticker := time.NewTicker(holdEvery)
		defer ticker.Stop()
		// A token that has just been taken for it is neither in the stock nor an order: so
		// it is looked twice.
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

// hear waits until it is known whether there is a token for a task: it has one, or holds a
// ticket, which is NotReady.
func (w *waiter) hear(ctx context.Context) (pool.Token, error) {
	select {
	case <-w.done:
		return w.told()
	case <-ctx.Done():
		return w.leave(ctx.Err())
	case <-w.parked:
		return w.leave(NotReady)
	}
}

// leave stops listening, unless the end has come.
func (w *waiter) leave(why error) (pool.Token, error) {
	w.tasks.mu.Lock()
	served := w.served
	if !served && w.ears > 0 {
		w.ears--
	}
	w.tasks.mu.Unlock()
	if served {
		<-w.done // which comes at once
		return w.told()
	}
	return pool.Token{}, why
}

// told is the end. To all but the first that hear of it the token is a repeated one.
func (w *waiter) told() (pool.Token, error) {
	w.tasks.mu.Lock()
	defer w.tasks.mu.Unlock()
	token := w.token
	if w.heard {
		token.Source = pool.FromReplay
	}
	w.heard = true
	return token, w.err
}

// began waits until it is known whether a task can wait, and answers why not.
func (w *waiter) began(ctx context.Context, patience time.Duration) error {
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

// letGo ends the lease of a task that this replica does nothing for.
func (t *Tasks) letGo(number string) {
	ctx, cancel := context.WithTimeout(context.Background(), noteLimit)
	defer cancel()
	if err := t.records.LetGo(ctx, number); err != nil {
		t.log.Debug("a client's task is not let go", "err", err)
	}
}

// Run keeps the leases of the tasks that wait here until ctx ends, then gives them up for
// other replicas and returns when every goroutine has ended. It may be called once.
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
			t.hold(ctx)
		}
	}
}

// hold renews the leases, and gives up what is not waited for any more.
func (t *Tasks) hold(ctx context.Context) {
	t.mu.Lock()
	numbers := make([]string, 0, len(t.waiting))
	for number := range t.waiting {
		numbers = append(numbers, number)
	}
	t.mu.Unlock()
	if len(numbers) == 0 {
		return
	}
	over, err := t.records.Hold(ctx, numbers)
	if err != nil && ctx.Err() == nil {
		t.log.Debug("leases of clients' tasks are not renewed", "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, number := range over {
		if w := t.waiting[number]; w != nil {
			w.end()
		}
	}
}
