package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"poold/internal/permits"
	"poold/internal/provider"
)

const (
	// exchangeEvery is the interval between two reads of the providers' standings from Redis.
	exchangeEvery = time.Second
	// slowPoll is the time between two polls of a task while the account's polls are refused.
	slowPoll = time.Minute
)

// faultKey identifies a provider's fault. If the key changes, the fault is shared again. The zero
// value means that the provider is up.
type faultKey struct {
	kind         provider.FaultKind
	code, action string
	since        time.Time
	polls        bool
}

func faultKeyOf(f *provider.Fault) faultKey {
	if f == nil {
		return faultKey{}
	}
	return faultKey{kind: f.Kind, code: f.Code, action: f.Action, since: f.Since, polls: f.Polls}
}

// shareFault informs the other replicas if this replica noticed that a provider's fault began,
// changed or ended.
func (as *accounts) shareFault(ctx context.Context, a *account) {
	f := a.Fault()
	now := faultKeyOf(f)
	as.mu.Lock()
	known := a.shared
	as.mu.Unlock()
	if now == known {
		return
	}
	err := withTimeout(ctx, func(ctx context.Context) error {
		if f == nil {
			return as.stock.ReportUp(ctx, a.Name(), time.Since(a.Answered()))
		}
		at := time.Now()
		next := f.Next.Sub(at)
		if known.polls = now.polls; now == known {
			next = 0 // the fault is the same, so Redis keeps the time of the next probe
		}
		return as.stock.ReportFault(ctx, a.Name(), permits.Fault{
			Kind: string(f.Kind), Code: f.Code, Reason: f.Reason, Action: f.Action,
			Since: at.Sub(f.Since), Next: next, Every: f.Every, Polls: f.Polls,
		})
	})
	if err != nil {
		as.log.Debug("a provider's fault is not shared with other replicas", "provider", a.Name(), "err", err)
		return // the next exchange tries again
	}
	as.setShared(a, now)
}

func (as *accounts) setShared(a *account, now faultKey) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.shared = now
	a.turnAt = time.Time{}
	as.notifyLocked()
}

// exchange informs the other replicas about the provider faults that this replica noticed, and
// adopts the faults that they noticed.
func (as *accounts) exchange(ctx context.Context) {
	for _, a := range as.configured() {
		as.shareFault(ctx, a)
		var standing permits.Standing
		err := withTimeout(ctx, func(ctx context.Context) (err error) {
			standing, err = as.stock.Standing(ctx, a.Name())
			return err
		})
		if err != nil {
			return // Redis is away
		}
		as.adopt(ctx, a, standing)
	}
}

// adopt applies a provider's standing to this replica.
func (as *accounts) adopt(ctx context.Context, a *account, s permits.Standing) {
	as.mu.Lock()
	if a.refusals >= permits.MostRefusals && s.Refusals < permits.MostRefusals {
		a.turnAt = time.Time{}
		as.notifyLocked()
	}
	a.refusals = s.Refusals
	known := a.shared
	as.mu.Unlock()
	mine := a.Fault()
	switch {
	case faultKeyOf(mine) != known: // the fault changed meanwhile; the next exchange shares the change
	case s.Fault == nil && mine == nil:
	case s.Fault == nil:
		a.Adopt(ctx, nil)
		as.setShared(a, faultKey{})
	default:
		at := time.Now()
		f := provider.Fault{
			Kind: provider.FaultKind(s.Fault.Kind), Code: s.Fault.Code, Reason: s.Fault.Reason, Action: s.Fault.Action,
			Since: at.Add(-s.Fault.Since).Truncate(time.Millisecond), Next: at.Add(s.Fault.Next), Every: s.Fault.Every, Polls: s.Fault.Polls,
		}
		if f.Kind == provider.FaultOutage && a.Answered().After(f.Since) {
			return // this replica still reaches the provider
		}
		a.Adopt(ctx, &f)
		as.setShared(a, faultKeyOf(a.Fault()))
	}
}

// noteSubmit handles the answer to a submit. It counts a refusal in the provider's standing, unless
// the cause is the capacity or the account.
func (as *accounts) noteSubmit(ctx context.Context, a *account, refusals int, err error) {
	as.shareFault(ctx, a)
	var fault *provider.Error
	var report func(context.Context, string) error
	switch {
	case err == nil && refusals > 0:
		report = as.stock.ReportAccepted
	case errors.As(err, &fault) && !fault.Unknown && fault.Code != provider.NotAsked &&
		(fault.Class == provider.Parameters || fault.Class == provider.Task):
		report = as.stock.ReportRefusal
	default:
		return
	}
	if err := withTimeout(ctx, func(ctx context.Context) error { return report(ctx, a.Name()) }); err != nil {
		as.log.Debug("the answer to a submit is not counted", "provider", a.Name(), "err", err)
	}
}

// isBounded reports whether the provider refused the latest submits of all targets.
func (as *accounts) isBounded(a *account) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.refusals >= permits.MostRefusals
}

// pauseOrders stops this replica's orders at an account for the given time, because another order
// probes the account.
func (as *accounts) pauseOrders(a *account, wait time.Duration) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.turnAt = time.Now().Add(wait)
}

// sinceAnswered returns the time since the latest answered call was sent. It is negative if no call
// was answered.
func sinceAnswered(a *account) time.Duration {
	at := a.Answered()
	if at.IsZero() {
		return -1
	}
	return max(0, time.Since(at))
}

// ErrUnknownProvider means that no configured provider has the given name.
var ErrUnknownProvider = errors.New("no provider has this name")

// Probe tries a provider now, after an operator has repaired the provider's account. It reads the
// balance and allows the next order immediately. It returns the state of the provider. Its errors
// are ErrUnknownProvider and errors of Redis.
func (b *Buyer) Probe(ctx context.Context, name string) (Status, error) {
	a := b.accounts.byName(name)
	if a == nil {
		return Status{}, ErrUnknownProvider
	}
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := a.Probe(bounded)
	b.accounts.shareFault(ctx, a)
	if err != nil {
		b.log.Info("a probe of the provider failed", "provider", name, "err", err)
		return b.accounts.status(a, time.Now()), nil
	}
	err = withTimeout(ctx, func(ctx context.Context) error {
		_, err := b.stock.ProbeNow(ctx, name)
		return err
	})
	if err == nil {
		b.accounts.exchange(ctx)
		b.accounts.mu.Lock()
		b.accounts.notifyLocked()
		b.accounts.mu.Unlock()
	}
	return b.accounts.status(a, time.Now()), err
}

// Outage reports whether all providers are down. It returns the reason, and the time at which the
// first provider can be used again; zero = unknown.
func Outage(providers []Status) (reason string, until time.Time, is bool) {
	if len(providers) == 0 {
		return "no provider is configured", time.Time{}, true
	}
	for _, p := range providers {
		if p.State.Kind.Usable() {
			return "", time.Time{}, false
		}
		if until.IsZero() || p.State.Until.Before(until) {
			until = p.State.Until
		}
	}
	first := providers[0]
	return fmt.Sprintf("provider %s is %s: %s", first.Name, first.State.Kind, first.State.Reason), until, true
}
