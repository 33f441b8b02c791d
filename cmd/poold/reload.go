package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// apply gives a Set to all parts of the daemon.
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
	// Hand guests over before a worker looks at the new targets, because their figures begin anew.
	if err := d.store.Guests.HandOver(ctx, ids); err != nil {
		d.log.Debug("targets may still count as guests for some minutes", "err", err)
	}
	d.manager.Apply(ctx, set)
}

// reapply applies the Set of a reload. If the folder of the dead letters cannot be written, the
// daemon logs it and continues; at the start that is an error.
func (d *daemon) reapply(ctx context.Context, set *targets.Set) {
	if set.Simulated() && !d.file.Current().Simulated() {
		d.log.Warn(simulatedNow)
	}
	if err := d.openLetters(set); err != nil {
		d.log.Error("callbacks cannot be kept while redis is away", "err", err)
	}
	d.apply(ctx, set)
}

// openLetters opens the folder of the dead letters if a provider calls back, or if the folder
// exists, and finds the letters of an earlier run.
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
			d.log.Info("reloading on SIGHUP")
			_ = d.file.Reload(ctx) // it logs the problems
		}
	}
}
