package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// apply puts a set in force.
func (d *daemon) apply(ctx context.Context, set *targets.Set) {
	d.buyer.SetProviders(d.providers.entries(ctx, set))
	d.buyer.SetBudget(set.Budget.PerDay)
	ids, names := make([]captcha.ID, len(set.Targets)), make(map[captcha.ID]string, len(set.Targets))
	for i := range set.Targets {
		ids[i] = set.Targets[i].ID
		names[ids[i]] = set.Targets[i].Name
	}
	if d.history.arrivals != nil {
		d.history.arrivals.SetTargets(names)
	}
	// Before a worker looks at them: their figures begin anew.
	if err := d.store.Guests.Leave(ctx, ids); err != nil {
		d.log.Debug("targets may still count as guests for some minutes", "err", err)
	}
	d.manager.Apply(ctx, set)
}

// reapply puts the set of a reload in force. The daemon goes on where callbacks
// cannot be kept; at its start that would be an error.
func (d *daemon) reapply(ctx context.Context, set *targets.Set) {
	if set.Simulated() && !d.file.Current().Simulated() {
		d.log.Warn(simulatedNow)
	}
	if err := d.openLetters(set); err != nil {
		d.log.Error("callbacks cannot be kept while redis is away", "err", err)
	}
	d.apply(ctx, set)
}

// openLetters makes sure that callbacks can be kept on disk, where there are to
// be any, and finds those of an earlier run.
func (d *daemon) openLetters(set *targets.Set) error {
	called := slices.ContainsFunc(set.Providers, func(p targets.Provider) bool { return p.CallbackURL != "" })
	if _, err := os.Stat(d.letters); err != nil && !called {
		return nil
	}
	if err := d.buyer.OpenDeadLetters(); err != nil {
		return fmt.Errorf("dead_letters.dir: %w", err)
	}
	return nil
}

// reloadOnHangup reads the file again at each SIGHUP, until ctx ends.
func (d *daemon) reloadOnHangup(ctx context.Context, hangups <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			d.log.Info("reloading, as SIGHUP asks")
			_ = d.file.Reload(ctx) // it has logged what is wrong
		}
	}
}
