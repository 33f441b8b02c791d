package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"poold/internal/backoff"
	"poold/internal/pool"
	"poold/internal/provider"
)

// await polls the task until the task ends or the order times out. When a callback for the order
// arrives, ctx is cancelled.
func (ords *orders) await(ctx context.Context, o *Order) notice {
	first, interval := o.pace(ords.accounts.silent(o.account))
	giveUp := o.submitted.Add(o.timeout)
	wait := time.Until(first)
	o.lastCall = o.submitted
	for {
		// The wait is shortened so that the last poll is made at the time-out.
		if err := backoff.Sleep(ctx, min(wait, time.Until(giveUp))); err != nil {
			return notice{trigger: stopped, err: err}
		}
		asked := time.Now()
		if wait = o.pollDelay(asked, giveUp); wait > 0 {
			continue
		}
		o.lastCall = asked
		o.polls++
		solution, err := ords.poll(ctx, o)
		if err == nil {
			return notice{trigger: solved, solution: solution}
		}
		if err := ctx.Err(); err != nil {
			return notice{trigger: stopped, err: err}
		}
		var fault *provider.Error
		wait = jitter(interval)
		answered := false
		switch {
		case errors.Is(err, provider.ErrNotReady):
			o.unsolved, answered = asked, true
		case !errors.As(err, &fault):
			// The call was cancelled.
		case fault.Class == provider.Task:
			return notice{trigger: failed, err: err, code: fault.Code}
		case fault.Class == provider.Parameters:
			return notice{trigger: badParameters, err: err, code: fault.Code}
		case fault.Class == provider.Account:
			// pollDelay decides when to poll again.
		default:
			wait = max(wait, fault.Delay)
		}
		if !time.Now().Before(giveUp) {
			err = fmt.Errorf("not solved within %v: %w", o.timeout, err)
			if !answered {
				return notice{trigger: uncollected, err: err, code: codeOf(err)}
			}
			return notice{trigger: failed, err: err, code: pool.CodeTimeout}
		}
	}
}

// pace returns the time of the first poll and the interval between polls. If a callback is
// expected, the first poll comes after the fallback time. Otherwise the first poll comes one
// interval before the shortest recent lead time, but not before the provider's first wait. An
// earlier first poll would find no token; with a later one, the token's age would be less certain.
func (o *Order) pace(silent bool) (first time.Time, interval time.Duration) {
	wait, interval := o.account.Pace(o.spec.Identity.Type)
	if o.hasCallback && !silent {
		return o.submitted.Add(o.fallback), interval
	}
	return o.answered.Add(max(wait, o.spec.Shortest-interval)), interval
}

// pollDelay returns how long to delay a poll; 0 = poll now. During an account fault the service
// may refuse polls too. Each task is then polled only once a minute, but at least once before its
// time-out, and at its time-out.
func (o *Order) pollDelay(at, giveUp time.Time) time.Duration {
	ok, wait := o.account.PollTurn(at)
	if ok {
		o.slowPolls = 0
		return 0
	}
	due := o.lastCall.Add(slowPoll)
	if half := o.lastCall.Add(giveUp.Sub(o.lastCall) / 2); o.slowPolls == 0 && half.Before(due) {
		due = half
	}
	if !at.Before(due) || !at.Before(giveUp) {
		o.slowPolls++
		return 0
	}
	return min(wait, due.Sub(at))
}

func (ords *orders) poll(ctx context.Context, o *Order) (provider.Solution, error) {
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	solution, err := o.account.Poll(bounded, o.task, o.spec.Identity)
	ords.accounts.shareFault(ctx, o.account)
	return solution, err
}
