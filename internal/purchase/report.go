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

// reports passes what callers say of tokens on to the providers, in the background and
// as long as a provider takes it. It is safe for concurrent use.
type reports struct {
	*base
	accounts *accounts
	waiting  chan report

	mu     sync.Mutex
	closed bool // takes no more
}

func newReports(b *base, as *accounts) *reports {
	return &reports{base: b, accounts: as, waiting: make(chan report, mostReports)}
}

// add takes one. It never blocks: what finds no room is only counted.
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

// send sends them until ctx ends, a few at a time, so that a service that hangs does
// not make the reports to others late. What is left then is counted.
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

// sendOne sends one report and says how that went.
func (rs *reports) sendOne(ctx context.Context, r report) (outcome string) {
	a := rs.accounts.named(r.provider)
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
