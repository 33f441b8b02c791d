package purchase

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Run does what the buyer owes to the orders and to the providers, until ctx
// ends: it renews the leases of the orders that this replica works on, takes back
// what a Redis that hung left behind, replays dead letters, passes reports on,
// asks the providers for their threads and balances, and tells the other replicas how
// they do.
func (b *Buyer) Run(ctx context.Context) error {
	var duties sync.WaitGroup
	for _, duty := range []struct {
		every time.Duration
		do    func(context.Context)
	}{
		{renewEvery, b.orders.renew}, {retryEvery, b.placer.retry}, {replayEvery, b.replay.quietly},
		{stepEvery, b.accounts.step},
	} {
		duties.Go(func() { b.repeat(ctx, duty.every, duty.do) })
	}
	duties.Go(func() { b.reports.send(ctx) })
	duties.Go(func() { b.accounts.maintain(ctx) })
	duties.Wait()
	return nil
}

// repeat does something now and then. A panic ends one turn alone.
func (b *Buyer) repeat(ctx context.Context, every time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			contain(b.log, func() { do(ctx) })
		}
	}
}

// contain keeps a panic from ending the daemon.
func contain(log *slog.Logger, do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("panic at the buyer", "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	do()
}
