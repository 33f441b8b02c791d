package purchase

import (
	"context"
	"sync"
	"time"

	"poold/internal/provider"
)

// refreshEvery is how often a provider is asked for its threads and its balance.
const refreshEvery = time.Minute

// maintain asks the providers for their threads and balances, once a minute and
// when a provider comes.
func (as *accounts) maintain(ctx context.Context) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for all := true; ; {
		as.refresh(ctx, all)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			all = true
		case <-as.arrived:
			all = false
		}
	}
}

// refresh asks the providers side by side, so that one that hangs does not
// age the figures of the others; all or only those that are new.
func (as *accounts) refresh(ctx context.Context, all bool) {
	as.mu.Lock()
	var due []*account
	for _, a := range as.listed {
		if all || !a.asked {
			a.asked = true
			due = append(due, a)
		}
	}
	as.mu.Unlock()
	var calls sync.WaitGroup
	for _, a := range due {
		calls.Go(func() { as.contain(func() { as.refreshAccount(ctx, a) }) })
	}
	calls.Wait()
}

// refreshAccount reads one provider's threads and balance.
func (as *accounts) refreshAccount(ctx context.Context, a *account) {
	// An account fault stops all calls but the slow probe, which is an order.
	if a.State(time.Now()).Kind == provider.StateDown {
		return
	}
	defer as.share(ctx, a)
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	total, ok, err := a.Threads(bounded)
	if ctx.Err() != nil {
		return
	}
	as.resize(a, total, ok, err)
	if err := a.ReadBalance(bounded); err != nil {
		as.log.Debug("balance not read", "provider", a.Name(), "err", err)
	}
}

// resize applies what a provider said about its threads. An error keeps the
// last number; none at all lets one order through, whose answer says why.
func (as *accounts) resize(a *account, total int, ok bool, err error) {
	as.mu.Lock()
	before, turned := a.limitLocked(), a.unread != (err != nil)
	a.unread = err != nil
	switch {
	case err != nil:
	case ok:
		a.threads = max(1, total)
	default:
		a.threads = 0
	}
	after := a.limitLocked()
	as.notifyLocked()
	as.mu.Unlock()

	if turned && err != nil {
		as.log.Warn("threads not read; the last known number stays", "provider", a.Name(), "err", err)
	}
	if before != after {
		as.log.Info("concurrency follows the provider's threads", "provider", a.Name(), "from", before, "to", after)
	}
}
