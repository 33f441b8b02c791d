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

// collect sees a placed or adopted order through: it submits, stores the task id,
// waits for a callback or polls, settles, and frees the slot at its end.
//
// When ctx ends nothing more is bought: an order that was not submitted is
// taken back, a submit in flight is finished and its task id stored, and an
// order that waits is left in the journal at once, for any replica to adopt. A
// token that was received is still landed.
func (ords *orders) collect(ctx context.Context, o *Order) (r Result) {
	defer o.slot.Free()
	ctx, o.stop = context.WithCancel(ctx)
	defer o.stop()
	ords.hold(o)
	defer ords.unhold(o)
	defer func() {
		// One order's fault must not take the others with it.
		if cause := recover(); cause != nil {
			r = ords.panicked(o, cause)
		}
	}()
	if o.task == "" {
		if r, bought := ords.buy(ctx, o); !bought {
			return r
		}
	}
	n := ords.await(ctx, o)
	crash.At("polled")
	if outside := o.outside.Load(); n.news == stopped && outside != nil {
		return *outside
	}
	late := o.called && time.Since(o.submitted) >= o.fallback
	r = ords.conclude(ctx, o, pool.Bought, n)
	if late && n.news == solved && r.Outcome != Elsewhere && !o.maybeCalled() {
		ords.accounts.called(o.account, false)
	}
	return r
}

// maybeCalled reports whether a callback about the order came to a replica. Another
// replica may have kept one on disk while Redis did not take a step of this order.
func (o *Order) maybeCalled() bool {
	return o.hampered || o.arrived.Load() || o.outside.Load() != nil
}

// buy submits the order and stores its task, unless it ends over that.
func (ords *orders) buy(ctx context.Context, o *Order) (r Result, bought bool) {
	if err := ctx.Err(); err != nil {
		ords.placer.rollback(ctx, o)
		return Result{Outcome: Interrupted, Err: err}, false
	}
	o.submitting.Store(true)
	defer o.submitting.Store(false)
	if r, marked := ords.mark(ctx, o); !marked {
		return r, false
	}
	crash.At("marked")
	if err := ctx.Err(); err != nil {
		// It was not submitted after all, and nobody but this replica knows.
		return Result{Outcome: Interrupted, Err: ords.placer.rollbackTwice(ctx, o, err)}, false
	}
	if err := ords.submit(ctx, o); err != nil {
		return ords.conclude(ctx, o, pool.Submitting, unsold(err)), false
	}
	crash.At("submitted")
	var mine bool
	err := ords.retryUntilDeadline(ctx, o, "claiming a task", func(ctx context.Context) (err error) {
		mine, err = ords.stock.Claim(ctx, o.provider, o.task, o.Ref, lifetime(o.account))
		return err
	})
	if err == nil && !mine {
		ords.log.Error("the provider answered a submit with the task of another order",
			"target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
		return ords.conclude(ctx, o, pool.Submitting, notice{
			news: unanswered, err: errors.New("its answer named the task of another order"),
		}), false
	}
	stands := false
	if err == nil {
		err = ords.retryUntilDeadline(ctx, o, "storing the task id", func(ctx context.Context) (err error) {
			stands, err = ords.stock.Submitted(ctx, o.Ref, o.task)
			return err
		})
	}
	switch {
	case err != nil:
		return ords.unlessElsewhere(ctx, o, fmt.Errorf("storing the task id: %w", err)), false
	case !stands:
		return ords.forgotten(ctx, o), false
	}
	crash.At("stored")
	return Result{}, true
}

// mark notes that the submit is about to leave, and that the order is still this
// replica's. A process that was stopped in between must not trust an old note.
func (ords *orders) mark(ctx context.Context, o *Order) (r Result, marked bool) {
	for {
		asked := time.Now()
		var mine bool
		err := withTimeout(ctx, func(ctx context.Context) (err error) {
			mine, err = ords.stock.Mark(ctx, o.Ref)
			return err
		})
		switch {
		case err != nil:
			return Result{Outcome: Interrupted, Err: ords.placer.rollbackTwice(ctx, o, fmt.Errorf("noting a submit: %w", err))}, false
		case !mine:
			return ords.elsewhere(o), false
		case time.Since(asked) < pool.Lease/2:
			return Result{}, true
		}
	}
}

// submit sends the order to the provider, whatever happens to ctx meanwhile:
// nobody could say whether a submit that was cut had been accepted.
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
	ords.accounts.submitted(ctx, o.account, o.refusals, err)
	unanswered := err != nil && isUnknown(err)
	if ords.accounts.answered(o.account, !unanswered) && unanswered {
		ords.log.Warn("nobody can say whether a submit was accepted; the order counts as bought until its time is over",
			"target", o.spec.Target, "provider", o.account.Name(), "err", err)
	}
	return err
}

// isUnknown reports whether nobody can say if the submit was accepted. An
// error that the client did not classify is taken for one, to be safe.
func isUnknown(err error) bool {
	var fault *provider.Error
	return !errors.As(err, &fault) || fault.Unknown
}

// unsold is what a submit says that brought no task id.
func unsold(err error) notice {
	n := notice{news: unanswered, err: err, code: codeOf(err)}
	if isUnknown(err) {
		return n
	}
	var fault *provider.Error
	errors.As(err, &fault)
	switch fault.Class {
	case provider.Parameters:
		n.news = badParameters
	case provider.Task:
		n.news = failed
	case provider.Capacity, provider.Account:
		n.news = unavailable
	}
	return n
}

// conclude ends an order with news of it, as ends has it.
func (ords *orders) conclude(ctx context.Context, o *Order, state pool.State, n notice) Result {
	e := endOf(state, n.news)
	switch e.script {
	case keep:
		return ords.keep(ctx, o, e, n)
	case leave:
		ords.letGo(ctx, o.Ref)
		return Result{Outcome: e.outcome, Err: n.err}
	}
	now := time.Now()
	n.took, n.age = now.Sub(o.submitted), now.Sub(o.unsolved)
	var how pool.Ending
	call := rand.Text() // a try without an answer may have ended it
	err := ords.retryUntilDeadline(ctx, o, string(e.script), func(ctx context.Context) (err error) {
		how, err = ords.carryOut(ctx, o, e, n, call)
		return err
	})
	if err == nil && how != pool.Stolen {
		if how == pool.Ended && e.script == settle {
			crash.At("settled")
		}
		ords.giveBack(ctx, o, e)
	}
	switch {
	case e.refund: // whatever others did with an order that was not bought
	case err != nil || how == pool.Gone:
		// Where Redis does not answer until the order's time is over, that counts as
		// its end, unless somebody else ended it. A service may not know a task that
		// somebody has collected, or that it has called back about.
		if e.script == settle {
			cause := errForgotten
			if err != nil {
				cause = fmt.Errorf("landing the token: %w", err)
			}
			return ords.unlessElsewhere(ctx, o, cause)
		}
		if ords.endedElsewhere(ctx, o) {
			return ords.elsewhere(o)
		}
	case how == pool.Stolen:
		return ords.elsewhere(o)
	case how == pool.Repeated:
		e, n = ords.repeated(o, n)
	}
	if e.outcome == Solved {
		ords.log.Debug("solved", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "took", n.took)
	}
	ords.ended(o, e.outcome, n)
	return e.result(o, n)
}

// giveBack gives back what an order that ended had reserved: the place at the provider,
// and the parts of the shared budgets where nothing was bought. Where that fails Redis
// forgets them in time.
func (ords *orders) giveBack(ctx context.Context, o *Order, e end) {
	if e.refund {
		for _, of := range o.booked {
			_ = ords.retryUntilDeadline(ctx, o, "giving a budget back", func(ctx context.Context) error {
				return ords.stock.Refund(ctx, of, o.Ref)
			})
		}
	}
	_ = ords.retryUntilDeadline(ctx, o, "giving a place back", func(ctx context.Context) error {
		return ords.stock.Release(ctx, o.provider, o.Ref)
	})
}

// keep notes that nobody can say whether the order was bought. It keeps its place in
// the depth, at the provider and in the budgets until it must be dead, and only a
// callback can still collect it.
func (ords *orders) keep(ctx context.Context, o *Order, e end, n notice) Result {
	stands := true
	err := ords.retryUntilDeadline(ctx, o, string(e.script), func(ctx context.Context) (err error) {
		stands, err = ords.unknown(ctx, o.provider, o.Ref, o.timeout)
		return err
	})
	if err == nil && !stands {
		// Where it stands all the same, another replica has it, with its place.
		there := false
		err := ords.retryUntilDeadline(ctx, o, "looking for an order", func(ctx context.Context) (err error) {
			_, there, err = ords.stock.Find(ctx, o.Ref)
			return err
		})
		if err != nil || there {
			return ords.elsewhere(o)
		}
		return ords.forgotten(ctx, o)
	}
	ords.ended(o, e.outcome, n)
	return e.result(o, n)
}

// unknown notes an order of unknown fate; false where it has ended.
func (ords *orders) unknown(ctx context.Context, provider string, order pool.Ref, hold time.Duration) (stands bool, err error) {
	stands, err = ords.stock.Unknown(ctx, order, hold)
	if err != nil || !stands {
		return stands, err
	}
	// It has a place, so this one shortens its life and is never refused.
	_, err = ords.stock.Acquire(ctx, provider, order, 1, hold, -1)
	return true, err
}

var errForgotten = errors.New("redis has forgotten the order")

// forgotten is the end of a bought order that is not in Redis any more. A callback or
// another replica was faster, or else Redis has forgotten it.
func (ords *orders) forgotten(ctx context.Context, o *Order) Result {
	ords.giveBack(ctx, o, end{}) // whoever ended it may have died over that
	return ords.unlessElsewhere(ctx, o, errForgotten)
}

// fateKept is how long Redis remembers an order that brought a token, at the least.
const fateKept = 15 * time.Minute

// endedElsewhere reports whether the order was ended by somebody else. What Redis
// may know is asked for as long as it may know it: a replica that Redis does not
// answer cannot say what others did meanwhile.
func (ords *orders) endedElsewhere(ctx context.Context, o *Order) (ended bool) {
	err := ords.retryUntil(ctx, o, time.Now().Add(fateKept), "asking how an order ended", func(ctx context.Context) (err error) {
		ended, err = ords.stock.Remembers(ctx, o.Ref)
		return err
	})
	return err == nil && ended
}

var errElsewhere = errors.New("the order ended at another replica")

// elsewhere is the end of an order that another replica works on, or ended.
func (ords *orders) elsewhere(o *Order) Result {
	ords.log.Debug("an order ended elsewhere", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
	if outside := o.outside.Load(); outside != nil {
		return *outside
	}
	return Result{Outcome: Elsewhere, Err: errElsewhere}
}

// unlessElsewhere gives up a task that is paid for, because Redis was away for too long
// or has forgotten it, unless somebody else ended it.
func (ords *orders) unlessElsewhere(ctx context.Context, o *Order, cause error) Result {
	if ords.endedElsewhere(ctx, o) {
		return ords.elsewhere(o)
	}
	ords.log.Warn("a paid task is lost", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "err", cause)
	return ords.lost(o, cause)
}

// lost reports an order of which nobody can say what became. It stays where it is.
func (ords *orders) lost(o *Order, cause error) Result {
	n := notice{err: cause}
	ords.ended(o, Lost, n)
	return end{outcome: Lost}.result(o, n)
}

// panicked turns a fault of this program into an order of unknown fate: nobody
// knows how far it got, so it counts as bought.
func (ords *orders) panicked(o *Order, cause any) Result {
	panics.Log(ords.log, "panic while collecting an order", cause, "target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
	n := notice{err: fmt.Errorf("panic: %v", cause)}
	ords.contain(func() { ords.ended(o, Lost, n) }) // the fault may be there
	return end{outcome: Lost}.result(o, n)
}
