package main

import (
	"context"
	"os"
	"slices"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// apply passes a new Set to all parts of the daemon that use a Set.
func (d *daemon) apply(_ context.Context, set *targets.Set) {
	d.port.SetLimit(set.Server.Connections)
	if set.Server.TLS.Certificate != nil {
		d.port.SetCertificate(set.Server.TLS.Certificate)
	}
	d.redis.SetPassword(targets.Password(set.Redis.URL).Reveal())
	d.redis.SetTLS(set.Redis.TLS)
	for _, store := range d.stores.opened {
		if urls := map[string]captcha.Secret{"dedup.url": set.Dedup.URL, "history.url": set.History.URL}; store.DB != nil {
			store.DB.SetPassword(targets.Password(urls[store.Key]).Reveal())
		}
	}
	d.openLetters(set)
	d.buyer.SetProviders(d.providers.listings(set))
	d.manager.Apply(set)
	d.notifier.Apply(set.Notify)
}

// openLetters opens the folder of the dead letters and finds the letters of earlier runs. If no provider has a callback
// URL and the folder does not exist, openLetters does nothing. If the folder is not writable, openLetters only logs
// this, because only callbacks that arrive while Redis is away need the folder.
func (d *daemon) openLetters(set *targets.Set) {
	called := slices.ContainsFunc(set.Providers, func(p targets.Provider) bool { return p.CallbackURL != "" })
	if _, err := os.Stat(set.DeadLetters); err != nil && !called {
		return
	}
	if err := d.buyer.OpenDeadLetters(); err != nil {
		d.log.Error("callbacks cannot be kept while redis is away: correct dead_letters.dir", "err", err)
	}
}

// reloadOnHangup reloads the file at each SIGHUP until ctx ends.
func (d *daemon) reloadOnHangup(ctx context.Context, hangups <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			d.log.Info("reloading on SIGHUP")
			d.systemd.Reload(func() { _ = d.file.Reload(ctx, bySignal) }) // File.Reload logs the problems itself
		}
	}
}
