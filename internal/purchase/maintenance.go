package purchase

import (
	"context"
	"sync"
	"time"

	"poold/internal/provider"
)

// refreshEvery is the interval between two reads of each provider's thread limit and balance.
const refreshEvery = time.Minute

// maintain reads the thread limits and balances of all providers once per refreshEvery. For a new
// provider it reads them immediately.
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

// refresh reads the limits and balances of all providers, or only of the new ones. It calls the
// providers concurrently, so that a provider that hangs does not delay the others.
func (as *accounts) refresh(ctx context.Context, all bool) {
	as.mu.Lock()
	var due []*account
	for _, a := range as.listed {
		if all || !a.threadsRead {
			a.threadsRead = true
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

// refreshAccount reads one provider's thread limit and its balance.
func (as *accounts) refreshAccount(ctx context.Context, a *account) {
	// During an account fault the only calls to the provider are rare probes, and each probe is an
	// order.
	if a.State(time.Now()).Kind == provider.StateDown {
		return
	}
	defer as.shareFault(ctx, a)
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

// resize applies the number of threads that a provider reports. After an error the last number
// stays in force. If the number is 0, one order is still allowed, because the service's answer to
// this order gives the reason.
func (as *accounts) resize(a *account, total int, ok bool, err error) {
	as.mu.Lock()
	before, turned := a.limitLocked(), a.threadsFailed != (err != nil)
	a.threadsFailed = err != nil
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
		as.log.Info("concurrency follows the provider's threads", "provider", a.Name(), "concurrency", after, "before", before)
	}
}
