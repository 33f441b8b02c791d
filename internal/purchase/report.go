package purchase

import (
	"context"
	"errors"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/provider"
)

const (
	// maxReports limits the pending reports. Further reports are counted and not sent.
	maxReports = 256
	// reportsAtOnce is the number of goroutines that send reports.
	reportsAtOnce = 16
	// reportTries is the maximum number of attempts to send one report.
	reportTries = 3
)

// report is a caller's report on a token.
type report struct {
	provider, task string
	kind           captcha.Type
	solved         time.Time // earliest possible time of the solve
	accepted       bool
}

// The type reports passes callers' reports to the providers in the background. A report is sent
// only within the provider's report window. It is safe for concurrent use.
type reports struct {
	*base
	accounts *accounts
	waiting  chan report

	mu     sync.Mutex
	closed bool // no more reports are accepted
}

func newReports(b *base, as *accounts) *reports {
	return &reports{base: b, accounts: as, waiting: make(chan report, maxReports)}
}

// add adds a report. It never blocks: if the queue is full, add counts the report as refused and
// drops it.
func (rs *reports) add(r report) {
	rs.mu.Lock()
	queued := false
	if !rs.closed {
		select {
		case rs.waiting <- r:
			queued = true
		default:
		}
	}
	rs.mu.Unlock()
	if !queued {
		rs.observe.Report(r.provider, ReportRefused)
	}
}

// send sends reports until ctx ends. Several reports are sent concurrently, so that a service
// that hangs does not delay reports to other services. When ctx ends, send counts the pending
// reports as refused.
func (rs *reports) send(ctx context.Context) {
	var senders sync.WaitGroup
	for range reportsAtOnce {
		senders.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case r := <-rs.waiting:
					rs.contain(func() { rs.observe.Report(r.provider, rs.sendOne(ctx, r)) })
				}
			}
		})
	}
	senders.Wait()
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	for {
		select {
		case r := <-rs.waiting:
			rs.contain(func() { rs.observe.Report(r.provider, ReportRefused) })
		default:
			return
		}
	}
}

// sendOne sends a report and returns its outcome.
func (rs *reports) sendOne(ctx context.Context, r report) (outcome string) {
	a := rs.accounts.byName(r.provider)
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
		bounded, cancel := context.WithTimeout(ctx, callTime)
		err := a.Report(bounded, r.task, r.kind, r.accepted)
		cancel()
		var fault *provider.Error
		switch {
		case err == nil:
			return ReportPassed
		case !errors.As(err, &fault) || fault.Class != provider.Capacity:
			rs.log.Debug("a report was refused", "provider", r.provider, "err", err)
			return ReportRefused
		}
		wait = jitter(max(firstRetry, fault.Delay))
	}
	return ReportRefused
}
