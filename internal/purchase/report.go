package purchase

import (
	"context"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
)

// mostReports limits the reports to services that are in flight at the same time.
const mostReports = 64

// The outcomes of a report.
const (
	ReportPassed  = "passed"
	ReportLate    = "late"    // the service no longer accepts a report
	ReportRefused = "refused" // not passed on, or the service did not take it
)

// Report passes to the provider, in the background, whether a site accepted the token of a task. The argument age is
// the age of the token. Report does not block: if too many reports are in flight, it drops this one.
func (b *Buyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	solved := time.Now().Add(-age)
	started := b.reports.TryGo(func() error {
		return panics.Contain(b.c.Log, "panic in a report", func() {
			b.c.Observer.Count("report", provider, b.sendReport(provider, task, t, solved, accepted))
		})
	})
	if !started {
		b.c.Observer.Count("report", provider, ReportRefused)
	}
}

func (b *Buyer) sendReport(name, task string, t captcha.Type, solved time.Time, accepted bool) (outcome string) {
	a := b.accounts.byName(name)
	if a == nil || task == "" {
		return ReportRefused
	}
	if _, brake, _ := b.accounts.terms(a); isDown(brake) {
		return ReportRefused
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.c.CallTime)
	defer cancel()
	if time.Since(solved) >= a.ReportWindow() {
		return ReportLate
	}
	if err := a.Report(ctx, task, t, accepted); err != nil {
		b.c.Log.Debug("a report was refused", "provider", name, "err", err)
		return ReportRefused
	}
	return ReportPassed
}
