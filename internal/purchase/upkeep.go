package purchase

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"poold/internal/provider"
)

// upkeepEvery is how often a provider is asked for its threads and its balance.
const upkeepEvery = time.Minute

// Run does what the desk owes to the orders and to the providers, until ctx
// ends: it renews the leases of the orders that this replica works on, takes back
// what a Redis that hung left behind, replays dead letters, passes reports on,
// and asks the providers for their threads and balances.
func (d *Desk) Run(ctx context.Context) error {
	var duties sync.WaitGroup
	for _, duty := range []struct {
		every time.Duration
		do    func(context.Context)
	}{
		{renewEvery, d.renew}, {tidyEvery, d.tidy}, {replayEvery, d.replayQuietly},
	} {
		duties.Go(func() { d.repeat(ctx, duty.every, duty.do) })
	}
	duties.Go(func() { d.passOn(ctx) })
	duties.Go(func() { d.visitAll(ctx) })
	duties.Wait()
	return nil
}

// repeat does something now and then. A panic ends one turn alone.
func (d *Desk) repeat(ctx context.Context, every time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.guarded(func() { do(ctx) })
		}
	}
}

// guarded keeps a panic from ending the daemon.
func (d *Desk) guarded(do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			d.log.Error("panic at the desk", "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	do()
}

// visitAll asks the providers for their threads and balances, once a minute and
// when a provider comes.
func (d *Desk) visitAll(ctx context.Context) {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	for all := true; ; {
		d.upkeep(ctx, all)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			all = true
		case <-d.newcom:
			all = false
		}
	}
}

// upkeep visits the providers side by side, so that one that hangs does not
// age the figures of the others; all or only those that are new.
func (d *Desk) upkeep(ctx context.Context, all bool) {
	d.mu.Lock()
	var due []*seller
	for _, s := range slices.Clone(d.sellers) {
		if all || !s.asked {
			s.asked = true
			due = append(due, s)
		}
	}
	d.mu.Unlock()
	var visits sync.WaitGroup
	for _, s := range due {
		visits.Go(func() { d.guarded(func() { d.visit(ctx, s) }) })
	}
	visits.Wait()
}

// visit reads one provider's threads and balance.
func (d *Desk) visit(ctx context.Context, s *seller) {
	// An account fault stops all calls but the slow probe, which is an order.
	if s.State(time.Now()).Kind == provider.StatePaused {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	total, ok, err := s.Threads(bounded)
	if ctx.Err() != nil {
		return
	}
	d.resize(s, total, ok, err)
	if err := s.ReadBalance(bounded); err != nil {
		d.log.Debug("balance not read", "provider", s.Name(), "err", err)
	}
}

// resize applies what a provider said about its threads. An error keeps the
// last number; none at all lets one order through, whose answer says why.
func (d *Desk) resize(s *seller, total int, ok bool, err error) {
	d.mu.Lock()
	before, turned := s.limitLocked(), s.mute != (err != nil)
	s.mute = err != nil
	switch {
	case err != nil:
	case ok:
		s.threads = max(1, total)
	default:
		s.threads = 0
	}
	after := s.limitLocked()
	d.tellLocked()
	d.mu.Unlock()

	if turned && err != nil {
		d.log.Warn("threads not read; the last known number stays", "provider", s.Name(), "err", err)
	}
	if before != after {
		d.log.Info("concurrency follows the provider's threads", "provider", s.Name(), "from", before, "to", after)
	}
}
