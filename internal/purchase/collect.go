package purchase

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

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
	solution, r := ords.await(ctx, o)
	crash("polled")
	switch r.Outcome {
	case Solved:
		if o.called && time.Since(o.submitted) >= o.fallback {
			ords.accounts.called(o.account, false)
		}
		return ords.settle(ctx, o, solution)
	case Failed:
		if !ords.end(ctx, o, pool.Failure{Ref: o.Ref, Bought: true}) {
			// A service may not know a task that somebody has collected, or that it
			// has called back about.
			return ords.elsewhere(o)
		}
		ords.tell(o, Failed)
		return r
	}
	if told := o.told.Load(); told != nil {
		return *told
	}
	// The daemon stops. The order stays in the journal.
	ords.letGo(ctx, o.Ref)
	return r
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
	crash("marked")
	if err := ctx.Err(); err != nil {
		// It was not submitted after all, and nobody but this replica knows.
		return Result{Outcome: Interrupted, Err: ords.placer.rollbackTwice(ctx, o, err)}, false
	}
	if err := ords.submit(ctx, o); err != nil {
		return ords.unsold(ctx, o, err), false
	}
	crash("submitted")
	var mine bool
	err := ords.insist(ctx, o, "claiming a task", func(ctx context.Context) (err error) {
		mine, err = ords.stock.Claim(ctx, o.provider, o.task, o.Ref, lifetime(o.account))
		return err
	})
	if err == nil && !mine {
		ords.log.Error("the provider answered a submit with the task of another order",
			"target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
		return ords.doubt(ctx, o, errors.New("its answer named the task of another order")), false
	}
	stands := false
	if err == nil {
		err = ords.insist(ctx, o, "storing the task id", func(ctx context.Context) (err error) {
			stands, err = ords.stock.Submitted(ctx, o.Ref, o.task)
			return err
		})
	}
	switch {
	case err != nil:
		return ords.drop(ctx, o, fmt.Errorf("storing the task id: %w", err)), false
	case !stands:
		return ords.gone(ctx, o), false
	}
	crash("stored")
	return Result{}, true
}

// mark notes that the submit is about to leave, and that the order is still this
// replica's. A process that was stopped in between must not trust an old note.
func (ords *orders) mark(ctx context.Context, o *Order) (r Result, marked bool) {
	for {
		asked := time.Now()
		var mine bool
		err := attempt(ctx, func(ctx context.Context) (err error) {
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
	task, err := o.account.Submit(bounded, o.spec.Identity, o.pingback)
	o.answered = time.Now()
	o.task = task
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

// unsold ends an order whose submit brought no task id.
func (ords *orders) unsold(ctx context.Context, o *Order, err error) Result {
	if isUnknown(err) {
		return ords.doubt(ctx, o, err)
	}
	var fault *provider.Error
	errors.As(err, &fault)
	outcome := Busy
	switch fault.Class {
	case provider.Parameters:
		outcome = Refused
	case provider.Task:
		// A code that the profile does not know. Calling it a failure is what
		// keeps refill from asking for ever.
		outcome = Failed
	case provider.Capacity, provider.Account:
	}
	// What the provider refused in so many words was not bought.
	ords.end(ctx, o, pool.Failure{Ref: o.Ref})
	ords.tell(o, outcome)
	return o.result(outcome, err)
}

// doubt notes that nobody can say whether the order was bought. It keeps its
// place in the depth, at the provider and in the budgets until it must be dead,
// and only a callback can still collect it.
func (ords *orders) doubt(ctx context.Context, o *Order, cause error) Result {
	stands := true
	err := ords.insist(ctx, o, "noting an order of unknown fate", func(ctx context.Context) (err error) {
		stands, err = ords.unknown(ctx, o.provider, o.Ref, o.timeout)
		return err
	})
	if err == nil && !stands {
		// Where it stands all the same, another replica has it, with its place.
		there := false
		err := ords.insist(ctx, o, "looking for an order", func(ctx context.Context) (err error) {
			_, there, err = ords.stock.Find(ctx, o.Ref)
			return err
		})
		if err != nil || there {
			return ords.elsewhere(o)
		}
		return ords.gone(ctx, o)
	}
	return ords.lose(o, cause)
}

// unknown notes an order of unknown fate; false where it has ended.
func (ords *orders) unknown(ctx context.Context, provider string, order pool.Ref, hold time.Duration) (stands bool, err error) {
	stands, err = ords.stock.Unknown(ctx, order, hold)
	if err != nil || !stands {
		return stands, err
	}
	// It has a place, so this one shortens its life and is never refused.
	_, _, err = ords.stock.Acquire(ctx, provider, order, 1, hold)
	return true, err
}

// settle lands the token.
func (ords *orders) settle(ctx context.Context, o *Order, s provider.Solution) Result {
	lead := time.Since(o.submitted)
	var how pool.Ending
	call := rand.Text() // a try without an answer may have landed it
	err := ords.insist(ctx, o, "landing a token", func(ctx context.Context) (err error) {
		how, err = ords.stock.Settle(ctx, pool.Landing{
			Ref: o.Ref, Call: call, Provider: o.account.Name(), Task: o.task,
			Value: s.Token, UserAgent: s.UserAgent,
			SincePlaced: o.unsolved.Sub(o.placed), Lifetime: o.spec.Lifetime, Lead: lead,
		})
		return err
	})
	if err != nil {
		return ords.drop(ctx, o, fmt.Errorf("landing the token: %w", err))
	}
	switch how {
	case pool.Stolen:
		return ords.elsewhere(o)
	case pool.Gone:
		return ords.gone(ctx, o)
	case pool.Repeated:
		ords.log.Warn("a task brought no new token", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "err", pool.RepeatedText)
		ords.release(ctx, o)
		ords.tell(o, Failed)
		return o.result(Failed, errors.New(pool.RepeatedText))
	case pool.Ended:
	}
	crash("settled")
	ords.release(ctx, o)
	ords.observe.Solve(o.spec.Target, o.account.Name(), Solved, lead)
	ords.log.Debug("solved", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "took", lead)
	return Result{Outcome: Solved}
}

// end removes an order without a token, then gives its reservations back; the
// budget keeps what was bought. Where Redis does not answer until the order's
// time is over, that counts as an end too. It is false where somebody else has the
// order, or ended it.
func (ords *orders) end(ctx context.Context, o *Order, f pool.Failure) bool {
	var how pool.Ending
	f.Call = rand.Text()
	err := ords.insist(ctx, o, "removing an order", func(ctx context.Context) (err error) {
		how, err = ords.stock.Fail(ctx, f)
		return err
	})
	if err != nil {
		return !ords.endedElsewhere(ctx, o)
	}
	if how == pool.Stolen {
		return false
	}
	if !f.Bought && o.booked {
		_ = ords.insist(ctx, o, "giving a budget back", func(ctx context.Context) error {
			return ords.stock.Refund(ctx, o.Ref)
		})
	}
	ords.release(ctx, o)
	return how == pool.Ended || !ords.endedElsewhere(ctx, o)
}

// release gives the place at the provider back; where that fails Redis forgets
// it in time.
func (ords *orders) release(ctx context.Context, o *Order) {
	_ = ords.insist(ctx, o, "giving a place back", func(ctx context.Context) error {
		return ords.stock.Release(ctx, o.provider, o.Ref)
	})
}

// gone is the end of a bought order that is not in Redis any more. A callback or
// another replica was faster, or else Redis has forgotten it.
func (ords *orders) gone(ctx context.Context, o *Order) Result {
	ords.release(ctx, o) // whoever ended it may have died over that
	return ords.drop(ctx, o, errors.New("redis has forgotten the order"))
}

// fateKept is how long Redis remembers an order that brought a token, at the least.
const fateKept = 15 * time.Minute

// endedElsewhere reports whether the order was ended by somebody else. What Redis
// may know is asked for as long as it may know it: a replica that Redis does not
// answer cannot say what others did meanwhile.
func (ords *orders) endedElsewhere(ctx context.Context, o *Order) (ended bool) {
	err := ords.insistUntil(ctx, o, time.Now().Add(fateKept), "asking how an order ended", func(ctx context.Context) (err error) {
		ended, err = ords.stock.Remembers(ctx, o.Ref)
		return err
	})
	return err == nil && ended
}

var errElsewhere = errors.New("the order ended at another replica")

// elsewhere is the end of an order that another replica works on, or ended.
func (ords *orders) elsewhere(o *Order) Result {
	ords.log.Debug("an order ended elsewhere", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task)
	if told := o.told.Load(); told != nil {
		return *told
	}
	return Result{Outcome: Elsewhere, Err: errElsewhere}
}

// drop gives up a task that is paid for, because Redis was away for too long or has
// forgotten it, unless somebody else ended it.
func (ords *orders) drop(ctx context.Context, o *Order, cause error) Result {
	if ords.endedElsewhere(ctx, o) {
		return ords.elsewhere(o)
	}
	ords.log.Warn("a paid task is lost", "target", o.spec.Target, "provider", o.account.Name(), "task", o.task, "err", cause)
	return ords.lose(o, cause)
}

// lose reports an order of unknown fate. It stays where it is.
func (ords *orders) lose(o *Order, cause error) Result {
	ords.tell(o, Lost)
	return o.result(Lost, cause)
}

// tell reports an order that brought no token.
func (ords *orders) tell(o *Order, outcome Outcome) {
	var took time.Duration
	if !o.submitted.IsZero() {
		took = time.Since(o.submitted)
	}
	ords.observe.Solve(o.spec.Target, o.account.Name(), outcome, took)
}

// panicked turns a fault of this program into an order of unknown fate: nobody
// knows how far it got, so it counts as bought.
func (ords *orders) panicked(o *Order, cause any) Result {
	ords.log.Error("panic while collecting an order", "target", o.spec.Target, "provider", o.account.Name(),
		"task", o.task, "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
	contain(ords.log, func() { ords.tell(o, Lost) }) // the fault may be there
	return o.result(Lost, fmt.Errorf("panic: %v", cause))
}
