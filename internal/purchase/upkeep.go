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

// Run asks the providers for their threads and balances, once a minute and
// when a provider comes, and takes back what a Redis that hung left behind,
// until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	broom := time.NewTicker(tidyEvery)
	defer broom.Stop()
	all := true
	for due := true; ; {
		if due {
			d.upkeep(ctx, all)
		}
		due = true
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			all = true
		case <-d.newcom:
			all = false
		case <-broom.C:
			due = false
			d.tidy(ctx)
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
		visits.Go(func() { d.visit(ctx, s) })
	}
	visits.Wait()
}

// visit reads one provider's threads and balance.
func (d *Desk) visit(ctx context.Context, s *seller) {
	defer func() {
		if cause := recover(); cause != nil {
			d.log.Error("panic while asking a provider for its threads", "provider", s.Name(),
				"err", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
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
