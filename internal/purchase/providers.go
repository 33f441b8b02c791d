package purchase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/provider"
)

// refreshEvery is the time between two reads of a provider's thread limit and balance.
const refreshEvery = time.Minute

// refresh reads the thread limit and the balance of each new provider, and of all providers once a minute. A provider
// that hangs does not delay the others. During an account fault, refresh does not call the service, unless the fault is
// an empty balance.
func (b *Buyer) refresh(ctx context.Context) {
	as, now := &b.accounts, time.Now()
	var calls sync.WaitGroup
	defer calls.Wait()
	for _, a := range as.list() {
		as.mu.Lock()
		isBarred := a.brake.Kind == pool.BrakeAccount && !isEmpty(a.brake) && !a.inherited
		if now.Sub(a.refreshed) >= refreshEvery && !isBarred {
			a.refreshed = now
			calls.Go(func() {
				_ = panics.Contain(b.c.Log, "panic in a provider", func() { b.refreshAccount(ctx, a) })
			})
		}
		as.mu.Unlock()
	}
}

func (b *Buyer) refreshAccount(ctx context.Context, a *account) {
	limited, cancel := context.WithTimeout(ctx, b.c.CallTime)
	defer cancel()
	asked := time.Now()
	_, brake, _ := b.accounts.terms(a)
	isBroke := brake.Kind == pool.BrakeAccount // the event of its fault is enough
	total, ok, err := a.Threads(limited)
	if ctx.Err() != nil {
		return
	}
	if fault := (*provider.Error)(nil); errors.As(err, &fault) && fault.Class == provider.Account {
		b.note(ctx, a, exchange{poll: true, asked: asked, err: err}) // like a poll, it says nothing about submits
	}
	as := &b.accounts
	as.mu.Lock()
	if err == nil { // else the last number stays
		a.threads = 0
		if ok {
			a.threads = max(1, total) // with 0 threads, the answer to an order says why
		}
	}
	as.mu.Unlock()
	if err = errors.Join(err, a.ReadBalance(limited)); err != nil {
		b.c.Log.Debug("threads or balance not read", "provider", a.Name(), "err", err)
	} else if balance := a.Balance(); balance != nil {
		as.mu.Lock()
		a.inherited = a.inherited && *balance <= 0
		if brake.Kind == pool.BrakeOutage && time.Now().After(brake.Next) {
			a.tried = time.Time{} // it answers again: the next order tries it, also if another provider is up
		}
		as.mu.Unlock()
		if b.c.BalanceRead != nil && !isBroke {
			b.c.BalanceRead(a.Name(), *balance)
		}
	}
}

// ProviderStatus is the state of a provider of the file.
type ProviderStatus struct {
	Name        string
	State       provider.Condition
	Brake       pool.Brake // of its key, over all replicas
	InFlight    int        // orders of all replicas; while Redis is away, as last read
	Concurrency int
	Silent      bool // callbacks do not arrive, so tasks are polled from the start
}

// Providers returns the states of the providers in the file. A state follows from the brake, which all replicas share.
func (b *Buyer) Providers(ctx context.Context) []ProviderStatus {
	b.readBrakes(ctx)
	as := &b.accounts
	listed := as.list()
	var list []ProviderStatus
	var names []string
	for _, a := range listed {
		names = append(names, a.Name())
	}
	counts, err := b.c.Pool.InFlight(ctx, names)
	for i, a := range listed {
		l, brake, silent := as.terms(a)
		as.mu.Lock()
		if err == nil {
			a.inFlight = counts[i]
		}
		list = append(list, ProviderStatus{Name: a.Name(), State: stateOf(a, brake), Brake: brake, InFlight: a.inFlight,
			Concurrency: l.Concurrency, Silent: silent})
		as.mu.Unlock()
	}
	return list
}

// stateOf returns the state of a provider, given the brake of its key.
func stateOf(p Seller, brake pool.Brake) provider.Condition {
	s := provider.Condition{Kind: provider.StateOK, Balance: p.Balance()}
	if !brake.On() {
		return s
	}
	s.Kind, s.Reason, s.Since, s.Until = provider.StateDown, brake.Reason, brake.Since, brake.Next
	switch brake.Kind {
	case string(pool.Busy), string(pool.Refused):
		s.Kind = provider.StateBusy
		if time.Since(brake.Next) > outageEvery { // no order tried it lately
			return provider.Condition{Kind: provider.StateOK, Balance: s.Balance}
		}
	case pool.BrakeAccount:
		if !isEmpty(brake) {
			s.Balance = nil // nobody reads it during the fault
		}
		s.Code, _, _ = strings.Cut(brake.Reason, ": ")
		if strings.HasPrefix(brake.Reason, "ERROR: ") { // 2captcha's codes of bans, such as ERROR: 1001
			s.Code = brake.Reason[:min(len(brake.Reason), len("ERROR: 1001"))]
		}
		s.Fault, s.Remedy = p.Advice(s.Code)
	case pool.BrakeHangs:
		s.Remedy = "ask the service, or add a provider; poold tries it with one order a minute, and a token ends this"
	}
	if s.Kind == provider.StateDown && s.Remedy == "" {
		s.Remedy = "see whether the service works and can be reached; poold tries it again when an order needs it, and at " +
			"once after `poold probe " + p.Name() + "`"
	}
	return s
}

// ErrUnknownProvider means that no provider of the file has the name.
var ErrUnknownProvider = errors.New("no provider has this name")

// Probe tries a provider now, after an operator has repaired its account. It reads the balance. If the balance proves
// the repair, the provider is up; otherwise the next order may be placed at once. The error is ErrUnknownProvider, the
// service's error, or pool.ErrDown.
func (b *Buyer) Probe(ctx context.Context, name string) error {
	a := b.accounts.byName(name)
	if a == nil {
		return ErrUnknownProvider
	}
	limited, cancel := context.WithTimeout(ctx, b.c.CallTime)
	defer cancel()
	if err := a.ReadBalance(limited); err != nil {
		return fmt.Errorf("probing %s: %w", name, err)
	}
	_, brake, _ := b.accounts.terms(a)
	isBan := brake.Kind == pool.BrakeAccount && !isEmpty(brake) && !strings.Contains(brake.Reason, "KEY")
	proves := !isBan && brake.Kind != pool.BrakeHangs // a balance says nothing about bans and solves
	if balance := a.Balance(); balance != nil && *balance > 0 && proves {
		_, err := b.c.Pool.Lift(ctx, name, a.key, 0)
		return err
	}
	return b.c.Pool.Retry(ctx, a.key, name)
}
