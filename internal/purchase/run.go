package purchase

import (
	"context"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/panics"
)

// Run does the buyer's periodic work until ctx ends. It renews the leases of this replica's orders,
// removes leftovers, replays dead letters and passes on reports. It also reads the providers'
// limits and balances, and exchanges the providers' states with the other replicas.
func (b *Buyer) Run(ctx context.Context) error {
	var duties sync.WaitGroup
	for _, duty := range []struct {
		every time.Duration
		do    func(context.Context)
	}{
		{renewEvery, b.orders.renew}, {retryEvery, b.placer.removeLeftovers}, {replayEvery, b.replay.runQuietly},
		{exchangeEvery, b.accounts.exchange},
	} {
		duties.Go(func() { b.repeat(ctx, duty.every, duty.do) })
	}
	duties.Go(func() { b.reports.send(ctx) })
	duties.Go(func() { b.accounts.maintain(ctx) })
	duties.Wait()
	return nil
}

// repeat calls the function work at once and then periodically until ctx ends. A panic ends only the
// current call.
func (b *Buyer) repeat(ctx context.Context, every time.Duration, work func(context.Context)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		b.contain(func() { work(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// contain recovers from a panic in work, so that the panic does not end the daemon.
func (b *base) contain(work func()) { _ = panics.Contain(b.log, "panic at the buyer", work) }

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// stopGrace is how long a step is still retried after ctx has ended. It must be shorter than
	// the daemon's drain limit.
	stopGrace = 5 * time.Second
)

// retryUntilDeadline retries an idempotent step in Redis until the step succeeds. After the order's
// deadline it returns the last error. It continues for stopGrace after ctx has ended, because the
// order may be paid for.
func (ords *orders) retryUntilDeadline(ctx context.Context, o *Order, doing string, step func(context.Context) error) error {
	return ords.retryUntil(ctx, o, o.deadline, doing, step)
}

// retryUntil is retryUntilDeadline with a given deadline.
func (ords *orders) retryUntil(ctx context.Context, o *Order, until time.Time, doing string, step func(context.Context) error) error {
	stopping := ctx.Done()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := withTimeout(ctx, step)
		if err == nil {
			return nil
		}
		o.stepFailed = true
		// The store logs an outage of Redis once for all orders.
		ords.log.Debug("redis did not take a step of an order", "target", o.spec.Target,
			"provider", o.account.Name(), "task", o.task, "step", doing, "err", err)
		pause := jitter(wait)
		if !time.Now().Add(pause).Before(until) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-stopping:
			stopping = nil // a closed channel would end every further wait at once
			if grace := time.Now().Add(stopGrace); grace.Before(until) {
				until = grace
			}
		}
		timer.Stop()
	}
}

// withTimeout runs a step for at most stockTime. It ignores the end of ctx.
func withTimeout(ctx context.Context, step func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	return step(bounded)
}

// jitter returns a random duration from 90 to 110 % of d, so that orders that were placed together
// do not poll together.
func jitter(d time.Duration) time.Duration { return backoff.Around(d, 0.1) }
