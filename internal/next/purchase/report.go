package purchase

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/provider"
)

const (
	mostReports   = 256 // that wait; further ones are counted and dropped
	reportsAtOnce = 16
	reportTries   = 3
)

// The outcomes of a report.
const (
	ReportPassed  = "passed"
	ReportLate    = "late"    // the service accepts no report so long after the solve
	ReportRefused = "refused" // not passed on, or the service did not take it
)

// report is what a caller reports about a token.
type report struct {
	provider, task string
	kind           captcha.Type
	solved         time.Time
	accepted       bool
}

// Report passes to the provider, in the background, whether a site accepted the token of a task. The age is
// that of the token. It does not block.
func (b *Buyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	select {
	case b.reports <- report{provider, task, t, time.Now().Add(-age), accepted}:
	default:
		b.observer.Count("report", provider, ReportRefused)
	}
}

// sendReports sends reports until ctx ends, several at once, so that a service that hangs does not delay the
// others. Then it counts those that wait as refused.
func (b *Buyer) sendReports(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(reportsAtOnce)
	defer func() { _ = group.Wait() }() // no report fails
	for {
		select {
		case <-ctx.Done():
			for {
				select {
				case r := <-b.reports:
					b.observer.Count("report", r.provider, ReportRefused)
				default:
					return
				}
			}
		case r := <-b.reports:
			group.Go(func() error {
				return panics.Contain(b.log, "panic in a report", func() { b.observer.Count("report", r.provider, b.sendReport(ctx, r)) })
			})
		}
	}
}

func (b *Buyer) sendReport(ctx context.Context, r report) (outcome string) {
	a := b.accounts.byName(r.provider)
	if a == nil || r.task == "" {
		return ReportRefused
	}
	var wait time.Duration
	for range reportTries {
		if backoff.Sleep(ctx, wait) != nil {
			return ReportRefused
		}
		if time.Since(r.solved) >= a.ReportWindow() {
			return ReportLate
		}
		limited, cancel := context.WithTimeout(ctx, callTime)
		err := a.Report(limited, r.task, r.kind, r.accepted)
		cancel()
		var fault *provider.Error
		switch {
		case err == nil:
			return ReportPassed
		case !errors.As(err, &fault) || fault.Class != provider.Capacity:
			b.log.Debug("a report was refused", "provider", r.provider, "err", err)
			return ReportRefused
		}
		wait = max(100*time.Millisecond, fault.Delay)
	}
	return ReportRefused
}
