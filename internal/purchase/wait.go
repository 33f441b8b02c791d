package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
)

// await waits for news of the task: by polling, or by a callback, which ends ctx.
func (ords *orders) await(ctx context.Context, o *Order) notice {
	first, interval := o.pace(ords.accounts.silent(o.account))
	giveUp := o.submitted.Add(o.timeout)
	wait := time.Until(first)
	o.asked = o.submitted
	for {
		// The last poll is at the time-out, not an interval before it.
		if err := sleep(ctx, min(wait, time.Until(giveUp))); err != nil {
			return notice{news: stopped, err: err}
		}
		asked := time.Now()
		if wait = o.pollsLater(asked, giveUp); wait > 0 {
			continue
		}
		o.asked = asked
		o.polls++
		solution, err := ords.poll(ctx, o)
		if err == nil {
			return notice{news: solved, solution: solution}
		}
		if err := ctx.Err(); err != nil {
			return notice{news: stopped, err: err}
		}
		var fault *provider.Error
		wait = jitter(interval)
		answered := false
		switch {
		case errors.Is(err, provider.ErrNotReady):
			o.unsolved, answered = asked, true
		case !errors.As(err, &fault):
			// A call that was cut says nothing about the task.
		case fault.Class == provider.Task:
			return notice{news: failed, err: err, code: fault.Code}
		case fault.Class == provider.Parameters:
			return notice{news: badParameters, err: err, code: fault.Code}
		case fault.Class == provider.Account:
			// pollsLater says when to poll again.
		default:
			wait = max(wait, fault.Delay)
		}
		if !time.Now().Before(giveUp) {
			err = fmt.Errorf("not solved within %v: %w", o.timeout, err)
			if !answered {
				return notice{news: uncollected, err: err, code: codeOf(err)}
			}
			return notice{news: failed, err: err, code: pool.CodeTimeout}
		}
	}
}

// pace is when to poll first, and how long to wait between polls. With callbacks
// on, polling is for those that do not come, unless the provider is silent. Without them a poll before the
// shortest lead time of late could only find nothing; one interval before it
// bounds the token's age.
func (o *Order) pace(silent bool) (first time.Time, interval time.Duration) {
	wait, interval := o.account.Pace(o.spec.Identity.Type)
	if o.called && !silent {
		return o.submitted.Add(o.fallback), interval
	}
	return o.answered.Add(max(wait, o.spec.Shortest-interval)), interval
}

// pollsLater is how long a poll waits while an account fault lasts and polls are not known to
// be answered; 0 = it is sent now. Each task is polled once a minute all the same, when its
// time ends, and at least once before that.
func (o *Order) pollsLater(at, giveUp time.Time) time.Duration {
	ok, wait := o.account.PollTurn(at)
	if ok {
		o.slowly = 0
		return 0
	}
	due := o.asked.Add(slowPoll)
	if half := o.asked.Add(giveUp.Sub(o.asked) / 2); o.slowly == 0 && half.Before(due) {
		due = half
	}
	if !at.Before(due) || !at.Before(giveUp) {
		o.slowly++
		return 0
	}
	return min(wait, due.Sub(at))
}

func (ords *orders) poll(ctx context.Context, o *Order) (provider.Solution, error) {
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	solution, err := o.account.Poll(bounded, o.task, o.spec.Identity)
	ords.accounts.share(ctx, o.account)
	return solution, err
}
