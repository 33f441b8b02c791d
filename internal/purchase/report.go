package purchase

import (
	"context"
	"errors"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
)

const (
	// mostReports wait to be passed on; those beyond are only counted here.
	mostReports = 256
	// reportsAtOnce are on their way; each takes reportTries calls at most.
	reportsAtOnce = 16
	// reportTries is how often a report is sent that has no proper answer.
	reportTries = 3
)

// report is a caller's word on a token, on its way to the provider.
type report struct {
	provider, task string
	kind           captcha.Type
	solved         time.Time // the earliest it can have been
	accepted       bool
}

// Report passes a caller's word on a token of the given age on to its provider,
// in the background and as long as the provider takes it. It never blocks.
func (d *Desk) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	d.mu.Lock()
	queued := false
	if !d.deaf {
		select {
		case d.reports <- report{provider, task, t, time.Now().Add(-age), accepted}:
			queued = true
		default:
		}
	}
	d.mu.Unlock()
	if !queued {
		d.observe.Report(provider, ReportRefused)
	}
}

// passOn sends reports until ctx ends, a few at a time, so that a service that
// hangs does not make the reports to others late. What is left then is counted.
func (d *Desk) passOn(ctx context.Context) {
	var senders sync.WaitGroup
	for range reportsAtOnce {
		senders.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case r := <-d.reports:
					d.guarded(func() { d.observe.Report(r.provider, d.send(ctx, r)) })
				}
			}
		})
	}
	senders.Wait()
	d.mu.Lock()
	d.deaf = true
	d.mu.Unlock()
	for {
		select {
		case r := <-d.reports:
			d.guarded(func() { d.observe.Report(r.provider, ReportRefused) })
		default:
			return
		}
	}
}

// send sends one report and says how that went.
func (d *Desk) send(ctx context.Context, r report) (outcome string) {
	s := d.sellerNamed(r.provider)
	if s == nil || r.task == "" {
		return ReportRefused
	}
	var wait time.Duration
	for range reportTries {
		if sleep(ctx, wait) != nil {
			return ReportRefused
		}
		if time.Since(r.solved) >= s.ReportWindow() {
			return ReportLate
		}
		bounded, cancel := context.WithTimeout(ctx, callTime)
		err := s.Report(bounded, r.task, r.kind, r.accepted)
		cancel()
		var fault *provider.Error
		switch {
		case err == nil:
			return ReportPassed
		case !errors.As(err, &fault) || fault.Class != provider.Capacity:
			d.log.Debug("a report was refused", "provider", r.provider, "err", err)
			return ReportRefused
		}
		wait = jitter(max(firstRetry, fault.Delay))
	}
	return ReportRefused
}

// sellerNamed finds a provider of the list, nil for none.
func (d *Desk) sellerNamed(name string) *seller {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sellers {
		if s.Name() == name {
			return s
		}
	}
	return nil
}
