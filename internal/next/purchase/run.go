package purchase

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"poold/internal/backoff"
	"poold/internal/crash"
	"poold/internal/next/pool"
	"poold/internal/provider"
)

const (
	// slowBegin is how long an answer of Begin may take. After a longer time the process may have been
	// frozen, and another replica may own the order.
	slowBegin = 2 * time.Second
	// slowPoll is the time between two polls of a task while the service refuses the account's polls.
	slowPoll = time.Minute
	// lookAgain is how soon a waiting order notices that its account has another key.
	lookAgain = 3 * time.Second
)

// steps returns a context for a step of an order that must not be lost: it is repeated until the order's
// deadline, and after the end of ctx for stopGrace.
func (o *order) steps(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithDeadline(context.WithoutCancel(ctx), o.deadline())
	unhook := context.AfterFunc(ctx, func() {
		_ = backoff.Sleep(limited, stopGrace)
		cancel()
	})
	return limited, func() { unhook(); cancel() }
}

// run carries an order from a state to its end. It returns without an end if ctx ends, if the outcome of the
// submit is unknown, or if another replica or a callback has the order.
func (b *Buyer) run(ctx context.Context, o *order, state pool.State) {
	if state == pool.Placed {
		if n := b.submit(ctx, o); n.trigger != "" {
			b.finish(ctx, o, pool.Submitting, n)
			return
		}
		if o.facts.Task == "" {
			return
		}
	}
	n := b.await(ctx, o)
	crash.At("polled")
	if o.elsewhere.Load() || n.trigger == stopped {
		return
	}
	how := b.finish(ctx, o, pool.Bought, n)
	crash.At("ended")
	late := o.facts.Called && n.solvedAt.Sub(o.submitted) >= o.facts.Fallback
	if a, _ := b.accounts.of(&o.facts); a != nil && late && how == string(pool.Solved) && !o.elsewhere.Load() {
		b.noteCallback(a, false)
	}
}

// finish ends an order, whose end is not to be lost.
func (b *Buyer) finish(ctx context.Context, o *order, state pool.State, n news) (how string) {
	steps, cancel := o.steps(ctx)
	defer cancel()
	how, err := b.end(steps, o, state, n)
	f := &o.facts
	switch {
	case err != nil && f.Task != "" && !o.elsewhere.Load():
		b.log.Warn("a paid task is lost", "target", f.Target, "provider", f.Provider, "task", f.Task, "err", err)
	case err != nil:
		b.log.Debug("an order is left to its deadline", "target", f.Target, "provider", f.Provider, "err", err)
	case n.trigger == busy && n.delay > time.Second: // the table's brake is for a second
		b.setBrake(steps, o.journal.Key, string(pool.Busy), n.err.Error(), n.delay, 0)
	}
	return how
}

// submit submits an order and stores its task. News mean that it was not bought. Without news and without a
// task, the outcome is unknown, or another replica has the order.
func (b *Buyer) submit(ctx context.Context, o *order) news {
	f, nonce := &o.facts, rand.Text()
	for begun := false; !begun; {
		if ctx.Err() != nil {
			return news{trigger: stopped, by: "stop"}
		}
		asked := time.Now()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
		mine, err := b.pool.Begin(limited, f.Order, nonce)
		cancel()
		if err != nil {
			return news{trigger: stopped, by: "stop", err: err}
		}
		if !mine {
			return news{}
		}
		begun = time.Since(asked) < slowBegin
	}
	crash.At("begun")
	if ctx.Err() != nil {
		return news{trigger: stopped, by: "stop"}
	}
	request := provider.Request{Identity: o.identity, Image: o.image, Pingback: o.pingback}
	o.image = nil
	passBreaker(ctx, o.account)
	was, asked := o.account.Fault(), time.Now()
	o.submitted, o.unsolved, f.Submitted = asked, asked, o.onRedis(asked)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	task, err := o.account.Submit(limited, request)
	cancel()
	o.answered = time.Now()
	crash.At("submitted")
	b.note(ctx, o.account, call{order: f.Order, was: was, asked: asked, err: err})
	if err != nil {
		n := refusal(err)
		if n.trigger == unanswered && b.accounts.turned(o.account, true) {
			b.log.Warn("a submit had no answer: the order counts as bought until its deadline", "target", f.Target, "provider", f.Provider, "err", err)
		}
		return n
	}
	b.accounts.turned(o.account, false)
	f.Task = task
	steps, cancel := o.steps(ctx)
	defer cancel()
	how, err := b.pool.Bought(steps, &o.journal, task, b.row(o))
	switch {
	case err != nil:
		b.log.Warn("a paid task is lost", "target", f.Target, "provider", f.Provider, "task", task, "err", err)
		f.Task = ""
	case how == pool.Gone: // a callback was faster
		f.Task = ""
	case how == pool.Repeated:
		b.log.Error("the provider answered a submit with the task of another order", "target", f.Target, "provider", f.Provider, "task", task)
		f.Task = ""
		return news{trigger: unanswered, by: "submit", err: errors.New("its answer named the task of another order")}
	}
	crash.At("bought")
	return news{}
}

// refusal returns the news of a submit that failed.
func refusal(err error) news {
	n := news{trigger: unanswered, by: "submit", err: err, code: codeOf(err)}
	var fault *provider.Error
	if !errors.As(err, &fault) || fault.Unknown {
		return n
	}
	switch fault.Class {
	case provider.Parameters:
		n.trigger = rejected
	case provider.Task:
		n.trigger = refused
	case provider.Account:
		n.trigger = faulty
	case provider.Capacity:
		n.trigger, n.delay = busy, fault.Delay
	}
	return n
}

func codeOf(err error) string {
	if fault := (*provider.Error)(nil); errors.As(err, &fault) {
		return fault.Code
	}
	return ""
}

// await polls the task until it ends or the time is over. A callback ends ctx.
func (b *Buyer) await(ctx context.Context, o *order) news {
	b.mu.Lock()
	o.waits = time.Now()
	b.mu.Unlock()
	f, giveUp := &o.facts, o.submitted.Add(o.facts.Timeout)
	next, last, slow := b.firstPoll(o), o.submitted, 0
	for {
		// The last poll is at the time-out.
		if backoff.Sleep(ctx, min(time.Until(next), time.Until(giveUp))) != nil {
			return news{trigger: stopped}
		}
		now := time.Now()
		over := !now.Before(giveUp)
		a, former := b.accounts.of(f)
		if o.stranded.Store(a == nil); a == nil {
			if over {
				return news{trigger: uncollected, by: "poll", err: errors.New("no provider of the file has the account of the task")}
			}
			next = now.Add(lookAgain)
			continue
		}
		// During an account fault the service may refuse polls too. Each task is then asked for once a
		// minute, but at least once before its time-out.
		turn, wait := a.PollTurn(now)
		if !turn && !over {
			due := last.Add(slowPoll)
			if half := last.Add(giveUp.Sub(last) / 2); slow == 0 && half.Before(due) {
				due = half
			}
			if now.Before(due) {
				next = now.Add(min(wait, due.Sub(now), lookAgain))
				continue
			}
			slow++
		}
		if turn {
			slow = 0
		}
		f.Polls, last = f.Polls+1, now
		solution, err := b.poll(ctx, o, a, former)
		if err == nil {
			at := time.Now()
			n := news{trigger: solved, by: "poll", solution: solution, solvedAt: at, lead: at.Sub(o.submitted), born: o.unsolved.Sub(o.placed)}
			if solution.Dated {
				n.born = o.submitted.Add(solution.SinceSubmit).Sub(o.placed)
			}
			return n
		}
		if ctx.Err() != nil {
			return news{trigger: stopped}
		}
		_, interval := a.Pace(f.Identity.Type)
		wait = backoff.Around(interval, 0.1)
		n, answered := news{by: "poll", err: err, code: codeOf(err)}, errors.Is(err, provider.ErrNotReady)
		var fault *provider.Error
		switch {
		case answered:
			o.unsolved = now
		case !errors.As(err, &fault):
		case fault.Class == provider.Task:
			n.trigger = failed
			return n
		case fault.Class == provider.Parameters:
			n.trigger = rejected
			return n
		case fault.Class == provider.Capacity:
			wait = max(wait, fault.Delay)
		}
		if over {
			n.trigger, n.err = uncollected, fmt.Errorf("not solved within %v: %w", f.Timeout, err)
			if answered {
				n.trigger, n.code = timedOut, CodeTimeout
			}
			return n
		}
		next = time.Now().Add(wait)
	}
}

// firstPoll returns the time of the first poll. If a callback is expected, it comes after the fallback
// time. Else it comes one interval before the shortest recent lead time, but not before the provider's
// first wait: an earlier poll finds no token, and after a later one the token's age is less certain.
func (b *Buyer) firstPoll(o *order) time.Time {
	a, _ := b.accounts.of(&o.facts)
	if a == nil {
		return time.Now()
	}
	wait, interval := a.Pace(o.facts.Identity.Type)
	if o.facts.Called && !b.accounts.silent(a) {
		return o.submitted.Add(o.facts.Fallback)
	}
	return o.answered.Add(max(wait, o.facts.Shortest-interval))
}

// poll asks for the task with the account's present key. If the service refuses the key or does not know the
// task, it asks with the key that submitted the order, whose faults say nothing about the present key.
func (b *Buyer) poll(ctx context.Context, o *order, a, former *account) (provider.Solution, error) {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	was, asked := a.Fault(), time.Now()
	solution, err := a.Poll(limited, o.facts.Task, o.identity)
	b.note(ctx, a, call{poll: true, order: o.facts.Order, was: was, asked: asked, err: err})
	var fault *provider.Error
	if former == nil || !errors.As(err, &fault) || fault.Class != provider.Account && fault.Class != provider.Task {
		return solution, err
	}
	again, cancelAgain := context.WithTimeout(ctx, callTime)
	defer cancelAgain()
	other, otherErr := former.Poll(again, o.facts.Task, o.identity)
	if otherErr == nil || errors.Is(otherErr, provider.ErrNotReady) {
		return other, otherErr
	}
	return solution, err
}
