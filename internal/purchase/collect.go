package purchase

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"poold/internal/crash"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/provider"
)

// collect runs a placed or adopted order until it ends: it submits the order, stores the
// task id, waits for a callback or polls, and settles the order. It frees the order's slot before
// it returns.
//
// When ctx ends, the method collect buys nothing more:
//
//   - It removes an order that was not submitted.
//   - It finishes a submit in flight and stores the task id.
//   - It leaves a pending order in the journal, from which any replica can adopt it.
//   - It still lands a token that it has received.
func (ords *orders) collect(ctx context.Context, o *Order) (r Result) {
	defer o.slot.Free()
	ctx, o.stop = context.WithCancel(ctx)
	defer o.stop()
	ords.register(o)
	defer ords.unhold(o)
	defer func() {
		// A panic while handling one order must not end the daemon.
		if cause := recover(); cause != nil {
			r = ords.reportPanic(o, cause)
		}
	}()
	if o.task == "" {
		if r, bought := ords.buy(ctx, o); !bought {
			return r
		}
	}
	n := ords.await(ctx, o)
	crash.At("polled")
	if outside := o.outside.Load(); n.trigger == stopped && outside != nil {
		return *outside
	}
	late := o.hasCallback && time.Since(o.submitted) >= o.fallback
	r = ords.conclude(ctx, o, pool.Bought, n)
	if late && n.trigger == solved && r.Outcome != Elsewhere && !o.maybeCalled() {
		ords.accounts.noteCallback(o.account, false)
	}
	return r
}

// maybeCalled reports whether any replica may have received a callback for the order. If a step of the
// order failed in Redis, another replica may have stored a callback on its disk.
func (o *Order) maybeCalled() bool {
	return o.stepFailed || o.arrived.Load() || o.outside.Load() != nil
}

// buy submits the order and stores its task id. The result bought is false if the order ended before
// its task id was stored.
func (ords *orders) buy(ctx context.Context, o *Order) (r Result, bought bool) {
	if err := ctx.Err(); err != nil {
		ords.placer.rollback(ctx, o)
		return Result{Outcome: Interrupted, Err: err}, false
	}
	o.submitting.Store(true)
	defer o.submitting.Store(false)
	if r, marked := ords.markSubmitting(ctx, o); !marked {
		return r, false
	}
	crash.At("marked")
	if err := ctx.Err(); err != nil {
		// The order is marked as submitting. Only this replica knows that the order was not submitted.
		return Result{Outcome: Interrupted, Err: ords.placer.rollbackUnanswered(ctx, o, err)}, false
	}
	if err := ords.submit(ctx, o); err != nil {
		return ords.conclude(ctx, o, pool.Submitting, submitFailed(err)), false
	}
	crash.At("submitted")
	var mine bool
	err := ords.retryUntilDeadline(ctx, o, "claiming a task", func(ctx context.Context) (err error) {
		mine, err = ords.stock.ClaimTask(ctx, o.provider, o.task, o.Ref, longestFlight(o.account))
		return err
	})
	if err == nil && !mine {
		ords.log.Error("the provider answered a submit with the task of another order",
			"target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
		return ords.conclude(ctx, o, pool.Submitting, notice{
			trigger: unanswered, err: errors.New("its answer named the task of another order"),
		}), false
	}
	exists := false
	if err == nil {
		err = ords.retryUntilDeadline(ctx, o, "storing the task id", func(ctx context.Context) (err error) {
			exists, err = ords.stock.Submitted(ctx, o.Ref, o.task)
			return err
		})
	}
	switch {
	case err != nil:
		return ords.giveUpTask(ctx, o, fmt.Errorf("storing the task id: %w", err)), false
	case !exists:
		return ords.endMissing(ctx, o), false
	}
	crash.At("stored")
	return Result{}, true
}

// markSubmitting records in Redis that the submit is about to be sent, and checks that this replica
// still has the lease of the order. If the call was slow, markSubmitting repeats it, because the lease
// may expire while the process is suspended.
func (ords *orders) markSubmitting(ctx context.Context, o *Order) (r Result, marked bool) {
	for {
		asked := time.Now()
		var mine bool
		err := withTimeout(ctx, func(ctx context.Context) (err error) {
			mine, err = ords.stock.MarkSubmitting(ctx, o.Ref)
			return err
		})
		switch {
		case err != nil:
			return Result{Outcome: Interrupted, Err: ords.placer.rollbackUnanswered(ctx, o, fmt.Errorf("marking a submit: %w", err))}, false
		case !mine:
			return ords.endElsewhere(o), false
		case time.Since(asked) < pool.Lease/2:
			return Result{}, true
		}
	}
}

// submit sends the order to the provider. It ignores the end of ctx, because a cancelled submit would
// have an unknown outcome.
func (ords *orders) submit(ctx context.Context, o *Order) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	o.submitted = time.Now()
	o.unsolved = o.submitted
	request := provider.Request{Identity: o.spec.Identity, Image: o.spec.Image, Pingback: o.pingback}
	o.spec.Image = nil
	task, err := o.account.Submit(bounded, request)
	o.answered = time.Now()
	o.task = task
	ords.accounts.noteSubmit(ctx, o.account, o.refusals, err)
	unanswered := err != nil && isUnknown(err)
	if ords.accounts.noteAnswer(o.account, !unanswered) && unanswered {
		ords.log.Warn("a submit had no answer: the order counts as bought until it expires",
			"target", o.spec.Target, "provider", o.account.Name(), "err", err)
	}
	return err
}

// isUnknown reports whether the provider may have accepted a submit that failed with err. It
// returns true for an error that the client did not classify.
func isUnknown(err error) bool {
	var fault *provider.Error
	return !errors.As(err, &fault) || fault.Unknown
}

// submitFailed returns the notice for a submit that failed.
func submitFailed(err error) notice {
	n := notice{trigger: unanswered, err: err, code: codeOf(err)}
	if isUnknown(err) {
		return n
	}
	var fault *provider.Error
	errors.As(err, &fault)
	switch fault.Class {
	case provider.Parameters:
		n.trigger = badParameters
	case provider.Task:
		n.trigger = failed
	case provider.Capacity, provider.Account:
		n.trigger = unavailable
	}
	return n
}

// conclude ends an order as the table in end.go defines for the order's state and the trigger.
func (ords *orders) conclude(ctx context.Context, o *Order, state pool.State, n notice) Result {
	e := endOf(state, n.trigger)
	switch e.script {
	case keep:
		return ords.keepUnknown(ctx, o, e, n)
	case leave:
		ords.releaseLeases(ctx, o.Ref)
		return Result{Outcome: e.outcome, Err: n.err}
	}
	now := time.Now()
	n.took, n.age = now.Sub(o.submitted), now.Sub(o.unsolved)
	var how pool.EndResult
	call := rand.Text() // lets Redis recognise a retry, because an earlier attempt without an answer may have succeeded
	err := ords.retryUntilDeadline(ctx, o, string(e.script), func(ctx context.Context) (err error) {
		how, err = ords.carryOut(ctx, o, e, n, call)
		return err
	})
	if err == nil && how != pool.NotOwner {
		if how == pool.Ended && e.script == settle {
			crash.At("settled")
		}
		ords.releaseEnded(ctx, o, e)
	}
	switch {
	case e.refund: // nothing was bought, so it does not matter whether another replica ended the order
	case err != nil || how == pool.Gone:
		// Either Redis gave no answer before the order expired, or Redis no longer has the order. The
		// order ends here, unless another replica or a callback ended it. After such an end the service
		// may no longer know the task, so the error of the service proves nothing.
		if e.script == settle {
			cause := errForgotten
			if err != nil {
				cause = fmt.Errorf("landing the token: %w", err)
			}
			return ords.giveUpTask(ctx, o, cause)
		}
		if ords.endedElsewhere(ctx, o) {
			return ords.endElsewhere(o)
		}
	case how == pool.NotOwner:
		return ords.endElsewhere(o)
	case how == pool.Repeated:
		e, n = ords.endRepeated(o, n)
	}
	if e.outcome == Solved {
		ords.log.Debug("solved", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "took", n.took)
	}
	ords.reportEnd(o, e.outcome, n)
	return e.result(o, n)
}

// releaseEnded returns the permit of an order that ended, and its budget reservations if nothing
// was bought. If Redis does not answer, the permit and the reservations expire.
func (ords *orders) releaseEnded(ctx context.Context, o *Order, e end) {
	if e.refund {
		for _, of := range o.booked {
			_ = ords.retryUntilDeadline(ctx, o, "returning a budget reservation", func(ctx context.Context) error {
				return ords.stock.Refund(ctx, of, o.Ref)
			})
		}
	}
	_ = ords.retryUntilDeadline(ctx, o, "releasing a permit", func(ctx context.Context) error {
		return ords.stock.Release(ctx, o.provider, o.Ref)
	})
}

// keepUnknown records that the outcome of the submit is unknown. Until the order expires, it counts
// toward the depth, the provider's concurrency and the budgets. Only a callback can end it earlier.
func (ords *orders) keepUnknown(ctx context.Context, o *Order, e end, n notice) Result {
	exists := true
	err := ords.retryUntilDeadline(ctx, o, string(e.script), func(ctx context.Context) (err error) {
		exists, err = ords.storeUnknown(ctx, o.provider, o.Ref, o.timeout)
		return err
	})
	if err == nil && !exists {
		// If the order still exists, another replica now runs it and has its permit.
		there := false
		err := ords.retryUntilDeadline(ctx, o, "looking for an order", func(ctx context.Context) (err error) {
			_, there, err = ords.stock.Find(ctx, o.Ref)
			return err
		})
		if err != nil || there {
			return ords.endElsewhere(o)
		}
		return ords.endMissing(ctx, o)
	}
	ords.reportEnd(o, e.outcome, n)
	return e.result(o, n)
}

// storeUnknown records in Redis that an order's outcome is unknown. It returns false if the order has
// ended.
func (ords *orders) storeUnknown(ctx context.Context, provider string, order pool.Ref, hold time.Duration) (exists bool, err error) {
	exists, err = ords.stock.Unknown(ctx, order, hold)
	if err != nil || !exists {
		return exists, err
	}
	// The order already has a permit, so Acquire only changes the permit's expiry, and is never
	// refused.
	_, err = ords.stock.Acquire(ctx, provider, order, 1, hold, -1)
	return true, err
}

var errForgotten = errors.New("redis has forgotten the order")

// endMissing ends a bought order that Redis no longer has: a callback or another replica ended it,
// or it has expired.
func (ords *orders) endMissing(ctx context.Context, o *Order) Result {
	ords.releaseEnded(ctx, o, end{}) // needed if the replica that ended the order died before it released the permit
	return ords.giveUpTask(ctx, o, errForgotten)
}

// fateKept is the minimum time for which Redis remembers how an order ended.
const fateKept = 15 * time.Minute

// endedElsewhere reports whether another replica, or a callback, ended the order. If Redis does not
// answer, endedElsewhere retries for as long as Redis remembers the end.
func (ords *orders) endedElsewhere(ctx context.Context, o *Order) (ended bool) {
	err := ords.retryUntil(ctx, o, time.Now().Add(fateKept), "asking how an order ended", func(ctx context.Context) (err error) {
		ended, err = ords.stock.Remembers(ctx, o.Ref)
		return err
	})
	return err == nil && ended
}

var errElsewhere = errors.New("the order ended at another replica")

// endElsewhere ends this replica's work on an order that another replica runs or has ended.
func (ords *orders) endElsewhere(o *Order) Result {
	ords.log.Debug("an order ended elsewhere", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
	if outside := o.outside.Load(); outside != nil {
		return *outside
	}
	return Result{Outcome: Elsewhere, Err: errElsewhere}
}

// giveUpTask reports a paid task as lost, because Redis was away for too long or the order has expired
// in Redis. If another replica ended the order, giveUpTask returns that end.
func (ords *orders) giveUpTask(ctx context.Context, o *Order, cause error) Result {
	if ords.endedElsewhere(ctx, o) {
		return ords.endElsewhere(o)
	}
	ords.log.Warn("a paid task is lost", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "err", cause)
	return ords.reportLost(o, cause)
}

// reportLost reports an order with an unknown outcome. It leaves the order in Redis.
func (ords *orders) reportLost(o *Order, cause error) Result {
	n := notice{err: cause}
	ords.reportEnd(o, Lost, n)
	return end{outcome: Lost}.result(o, n)
}

// reportPanic reports an order as lost after a panic. The order may have been submitted, so
// it counts as bought.
func (ords *orders) reportPanic(o *Order, cause any) Result {
	panics.Log(ords.log, "panic while collecting an order", cause, "target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
	n := notice{err: fmt.Errorf("panic: %v", cause)}
	ords.contain(func() { ords.reportEnd(o, Lost, n) }) // the observer may panic too
	return end{outcome: Lost}.result(o, n)
}
