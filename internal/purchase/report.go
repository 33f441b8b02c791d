package purchase

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
)

const (
	// mostReports wait to be passed on; those beyond are only counted here.
	mostReports = 256
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
	select {
	case d.reports <- report{provider, task, t, time.Now().Add(-age), accepted}:
	default:
		d.observe.Report(provider, ReportRefused)
	}
}

// passOn sends reports until ctx ends.
func (d *Desk) passOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-d.reports:
			d.guarded(func() { d.observe.Report(r.provider, d.send(ctx, r)) })
		}
	}
}

// send sends one report and says how that went.
func (d *Desk) send(ctx context.Context, r report) (outcome string) {
	s := d.sellerNamed(r.provider)
	if s == nil || r.task == "" {
		return ReportRefused
	}
	for try := range reportTries {
		if try > 0 && sleep(ctx, jitter(firstRetry<<try)) != nil {
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
