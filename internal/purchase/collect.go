package purchase

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
)

// Collect sees a placed order through: it submits, stores the task id, polls
// and settles, and frees the slot at its end. nil means that a token landed;
// otherwise the error is one of ErrBusy, ErrRefused, ErrFailed and ErrLost
// with its cause, or ctx's.
//
// When ctx ends nothing more is bought: an order that was not submitted is
// taken back, a submit in flight is finished and its task id stored, and an
// order that is being polled is left in the journal at once. A token that was
// received is still landed.
func (d *Desk) Collect(ctx context.Context, o *Order) (err error) {
	defer o.slot.Free()
	defer func() {
		// One order's fault must not take the others with it.
		if cause := recover(); cause != nil {
			err = d.panicked(o, cause)
		}
	}()
	if err := ctx.Err(); err != nil {
		d.undo(ctx, o)
		return err
	}
	if err := d.submit(ctx, o); err != nil {
		return d.unsold(ctx, o, err)
	}
	err = d.insist(ctx, o, "storing the task id", func(ctx context.Context) error {
		return d.stock.Submitted(ctx, o.spec.ID, o.id, o.task)
	})
	if err != nil {
		return d.drop(o, fmt.Errorf("storing the task id: %w", err))
	}
	solution, err := d.await(ctx, o)
	switch {
	case err == nil:
		return d.settle(ctx, o, solution)
	case errors.Is(err, ErrFailed):
		d.end(ctx, o, true)
		d.tell(o, Failed)
		return err
	default:
		// The daemon stops. The order stays in Redis until its time is over.
		return err
	}
}

// submit sends the order to the provider, whatever happens to ctx meanwhile:
// nobody could say whether a submit that was cut had been accepted.
func (d *Desk) submit(ctx context.Context, o *Order) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	o.submitted = time.Now()
	o.unsolved = o.submitted
	task, err := o.seller.Submit(bounded, o.spec.Identity)
	o.answered = time.Now()
	o.task = task
	unanswered := err != nil && isUnknown(err)
	if d.turns(o.seller, unanswered) && unanswered {
		d.log.Warn("a submit had no answer; the order counts as bought until its time is over",
			"target", o.spec.Target, "provider", o.seller.Name(), "err", err)
	}
	return err
}

// isUnknown reports whether nobody can say if the submit was accepted. An
// error that the client did not classify is taken for one, to be safe.
func isUnknown(err error) bool {
	var fault *provider.Error
	return !errors.As(err, &fault) || fault.Unknown
}

// turns notes whether the seller answers and reports whether that changed.
func (d *Desk) turns(s *seller, unanswered bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := s.unanswered != unanswered
	s.unanswered = unanswered
	return changed
}

// unsold ends an order whose submit brought no task id.
func (d *Desk) unsold(ctx context.Context, o *Order, err error) error {
	if isUnknown(err) {
		// No Fail and no Release: it keeps its place in the depth and at the
		// provider until it must be dead.
		return d.lose(o, err)
	}
	var fault *provider.Error
	errors.As(err, &fault)
	outcome, kind := Busy, ErrBusy
	switch fault.Class {
	case provider.Parameters:
		outcome, kind = Refused, ErrRefused
	case provider.Task:
		// A code that the profile does not know. Counting it as a failure is
		// what keeps refill from asking for ever.
		outcome, kind = Failed, ErrFailed
	case provider.Capacity, provider.Account:
	}
	d.end(ctx, o, outcome == Failed)
	d.tell(o, outcome)
	return fmt.Errorf("%s: %w: %w", o.seller.Name(), kind, err)
}

// await polls until the task is solved, has failed or is too old. Its error is
// ErrFailed or ctx's.
func (d *Desk) await(ctx context.Context, o *Order) (provider.Solution, error) {
	first, interval := o.seller.Pace(o.spec.Identity.Type)
	giveUp := o.submitted.Add(o.seller.Timeout())
	wait := time.Until(o.answered.Add(first))
	for {
		// The last poll is at the time-out, not an interval before it.
		if err := sleep(ctx, min(wait, time.Until(giveUp))); err != nil {
			return provider.Solution{}, err
		}
		asked := time.Now()
		solution, err := d.poll(ctx, o)
		if err == nil {
			return solution, nil
		}
		if err := ctx.Err(); err != nil {
			return provider.Solution{}, err
		}
		var fault *provider.Error
		wait = jitter(interval)
		switch {
		case errors.Is(err, provider.ErrNotReady):
			o.unsolved = asked
		case !errors.As(err, &fault):
			// A call that was cut says nothing about the task.
		case fault.Class == provider.Task:
			return provider.Solution{}, fmt.Errorf("%s: %w: %w", o.seller.Name(), ErrFailed, err)
		case fault.Class == provider.Parameters:
			return provider.Solution{}, fmt.Errorf("%s: %w: %w: %w", o.seller.Name(), ErrFailed, ErrRefused, err)
		default:
			wait = max(wait, fault.Delay)
		}
		if !time.Now().Before(giveUp) {
			return provider.Solution{}, fmt.Errorf("%s: %w: not solved within %v: %w", o.seller.Name(), ErrFailed, o.seller.Timeout(), err)
		}
	}
}

func (d *Desk) poll(ctx context.Context, o *Order) (provider.Solution, error) {
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return o.seller.Poll(bounded, o.task, o.spec.Identity)
}

// settle lands the token.
func (d *Desk) settle(ctx context.Context, o *Order, s provider.Solution) error {
	lead := time.Since(o.submitted)
	var settled bool
	tries := 0
	err := d.insist(ctx, o, "landing a token", func(ctx context.Context) (err error) {
		tries++
		settled, err = d.stock.Settle(ctx, pool.Landing{
			Order: o.id, Identity: o.spec.ID, Provider: o.seller.Name(),
			Value: s.Token, UserAgent: s.UserAgent,
			SincePlaced: o.unsolved.Sub(o.placed), Lifetime: o.spec.Lifetime, Lead: lead,
		})
		return err
	})
	if err != nil {
		return d.drop(o, fmt.Errorf("landing the token: %w", err))
	}
	// After a try without an answer it may have been that one; else somebody
	// removed the order.
	if !settled && tries == 1 {
		return d.drop(o, errors.New("landing the token: redis has forgotten the order"))
	}
	d.release(ctx, o)
	d.observe.Solve(o.spec.Target, o.seller.Name(), Solved, lead)
	d.log.Debug("solved", "target", o.spec.Target, "provider", o.seller.Name(), "task", o.task, "took", lead)
	return nil
}

// end removes an order without a token, then gives its place back.
func (d *Desk) end(ctx context.Context, o *Order, counted bool) {
	err := d.insist(ctx, o, "removing an order", func(ctx context.Context) error {
		_, err := d.stock.Fail(ctx, o.spec.ID, o.id, counted)
		return err
	})
	if err == nil {
		d.release(ctx, o)
	}
}

// release gives the place at the provider back; where that fails Redis forgets
// it in time.
func (d *Desk) release(ctx context.Context, o *Order) {
	_ = d.insist(ctx, o, "giving a place back", func(ctx context.Context) error {
		return d.stock.Release(ctx, o.seller.Name(), o.id)
	})
}

// drop gives up a task that is paid for, because Redis was away for too long.
func (d *Desk) drop(o *Order, cause error) error {
	d.log.Warn("a paid task is lost", "target", o.spec.Target, "provider", o.seller.Name(), "task", o.task, "err", cause)
	return d.lose(o, cause)
}

// lose reports an order of unknown fate. It stays where it is.
func (d *Desk) lose(o *Order, cause error) error {
	d.tell(o, Lost)
	return fmt.Errorf("%s: %w: %w", o.seller.Name(), ErrLost, cause)
}

// tell reports an order that brought no token.
func (d *Desk) tell(o *Order, outcome string) {
	var took time.Duration
	if !o.submitted.IsZero() {
		took = time.Since(o.submitted)
	}
	d.observe.Solve(o.spec.Target, o.seller.Name(), outcome, took)
}

// panicked turns a fault of this program into an order of unknown fate: nobody
// knows how far it got, so it counts as bought.
func (d *Desk) panicked(o *Order, cause any) error {
	d.log.Error("panic while collecting an order", "target", o.spec.Target, "provider", o.seller.Name(),
		"task", o.task, "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return d.lose(o, fmt.Errorf("panic: %v", cause))
}
