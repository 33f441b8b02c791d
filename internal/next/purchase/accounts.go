package purchase

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/panics"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
)

// formerFor is how long the account of a removed provider, or a former key, is remembered. It exceeds the
// longest life of an order.
const formerFor = 26 * time.Hour

// Provider is the part of *provider.Client that a Buyer needs. Values are comparable: SetProviders knows an
// unchanged provider by its value.
type Provider interface {
	Name() string
	Timeout() time.Duration
	Pace(t captcha.Type) (firstPoll, interval time.Duration)

	Submit(ctx context.Context, r provider.Request) (task string, err error)
	Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error)
	Report(ctx context.Context, task string, t captcha.Type, good bool) error
	ReportWindow() time.Duration
	Threads(ctx context.Context) (total int, ok bool, err error)
	ReadBalance(ctx context.Context) error
	Probe(ctx context.Context) error

	State(at time.Time) provider.State
	Fault() *provider.Fault
	Adopt(ctx context.Context, f *provider.Fault)
	PollTurn(at time.Time) (ok bool, wait time.Duration)
}

// Entry is a provider of the file.
type Entry struct {
	Provider    Provider
	Account     string // fingerprint of its account and key; see Account
	Concurrency int    // most orders in flight, of all replicas
	Simulated   bool   // it costs nothing, and no site accepts its tokens
	Callbacks   Callbacks
	Price       func(captcha.Type) float64 // of a token; negative = unknown; nil = 0
}

func (e *Entry) price(t captcha.Type) float64 {
	if e.Price == nil {
		return 0
	}
	return e.Price(t)
}

// Account returns the fingerprint of an account and its key. It does not depend on the provider's name, so
// that a renamed provider is recognised, and is too short to reveal the key.
func Account(protocol, url string, key captcha.Secret) string {
	return hex.EncodeToString(signature.MAC(key, "poold account", protocol, strings.TrimRight(url, "/"))[:6])
}

// brakeKey returns the name of the brake of an account's key.
func brakeKey(provider, fingerprint string) string { return provider + "." + fingerprint }

// account is a provider of the file, or a former one, at this replica. accounts.mu guards all fields but
// Provider and key.
type account struct {
	Provider

	key       string // of its brake
	entry     Entry
	removed   time.Time  // of the reload that removed it; zero = it is in the file
	brake     pool.Brake // as last read
	tried     time.Time  // when this replica saw the brake begin, or chose the account as a probe
	inFlight  int        // orders of all replicas, as last read; only with a Chooser
	threads   int        // most orders that the service allows; 0 = unknown
	refreshed time.Time
	failed    bool // a failed read of the threads was logged
	silent    int  // expected callbacks in a row that did not arrive
	mute      bool // the last submit had no answer
	submits   streak
	polls     streak
}

// limit returns the most orders in flight: what the file and the service allow.
func (a *account) limit() int {
	limit := max(1, a.entry.Concurrency)
	if a.threads > 0 {
		limit = min(limit, a.threads)
	}
	return limit
}

// accounts are the providers of the file in their order, and the former ones. It is safe for concurrent use.
type accounts struct {
	mu     sync.Mutex
	listed []*account
	former []*account // the latest removed first
}

// SetProviders replaces the providers of the file, in their order. Orders in flight keep their account, also
// of a removed provider or a former key.
func (b *Buyer) SetProviders(entries []Entry) {
	for _, e := range entries {
		b.secrets.Remember(e.Provider.Name(), e.Callbacks.Secrets)
	}
	as, now := &b.accounts, time.Now()
	as.mu.Lock()
	old := as.listed
	as.listed = nil
	for _, e := range entries {
		i := slices.IndexFunc(old, func(a *account) bool { return a.Provider == e.Provider })
		a := &account{Provider: e.Provider, key: brakeKey(e.Provider.Name(), e.Account)}
		if i >= 0 {
			a = old[i]
		}
		a.entry = e
		as.listed = append(as.listed, a)
	}
	for _, a := range old {
		if !slices.Contains(as.listed, a) {
			a.removed = now
			as.former = slices.Insert(as.former, 0, a)
		}
	}
	var seen []string
	for _, a := range as.listed {
		seen = append(seen, a.entry.Account)
	}
	as.former = slices.DeleteFunc(as.former, func(a *account) bool {
		known := slices.Contains(seen, a.entry.Account)
		seen = append(seen, a.entry.Account)
		return known || now.Sub(a.removed) > formerFor
	})
	as.mu.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default: // a wake-up is pending
	}
}

// of returns the account at which the task of an order is asked for, and the account with the key that
// submitted it, if that is known and another one. nil = none.
func (as *accounts) of(f *facts) (present, former *account) {
	as.mu.Lock()
	defer as.mu.Unlock()
	find := func(list []*account, fits func(*account) bool) *account {
		if i := slices.IndexFunc(list, fits); i >= 0 {
			return list[i]
		}
		return nil
	}
	same := func(a *account) bool { return a.entry.Account == f.Fingerprint }
	if a := find(as.listed, func(a *account) bool { return same(a) && a.Name() == f.Provider }); a != nil {
		return a, nil
	}
	if a := find(as.listed, same); a != nil {
		return a, nil // the provider has another name
	}
	former = find(as.former, same)
	if a := find(as.listed, func(a *account) bool { return a.Name() == f.Provider }); a != nil {
		return a, former // the account has another key
	}
	return former, nil
}

// byName returns the provider of the file with a name, or nil.
func (as *accounts) byName(name string) *account {
	for _, a := range as.list() {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

// list returns the providers of the file.
func (as *accounts) list() []*account {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Clone(as.listed)
}

// terms returns the terms of an account for a new order.
func (as *accounts) terms(a *account) Entry {
	as.mu.Lock()
	defer as.mu.Unlock()
	e := a.entry
	e.Concurrency = a.limit()
	return e
}

// candidates returns the providers that may get an order.
func (as *accounts) candidates(simulatedOnly bool) ([]*account, error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.listed) == 0 {
		return nil, ErrNoProvider
	}
	list := slices.Clone(as.listed)
	if simulatedOnly {
		list = slices.DeleteFunc(list, func(a *account) bool { return !a.entry.Simulated })
	}
	if len(list) == 0 {
		return nil, ErrSimulatedOnly
	}
	return list, nil
}

// How the provider of an order was chosen, besides the words of the Chooser.
const (
	ChoiceOrdered = "ordered" // the first one that was up
	ChoiceProbe   = "probe"   // one whose brake lets an order pass
)

// Offer is a provider that is up.
type Offer struct {
	Provider string
	Price    float64 // of a token; negative = unknown
	Slots    int     // most orders in flight
	Full     bool    // all slots are in use
}

// choose chooses among candidates: the first one that is up, or that the Chooser names. A braked one gets the
// order if a probe is due: with the policy ordered if no earlier one is up, else at once, because otherwise
// it would never get an order again. If all are braked, the first one refuses the order and says why.
func (b *Buyer) choose(s *Spec, candidates []*account) (index int, choice string) {
	as, now := &b.accounts, time.Now()
	by := b.chooser
	if s.Policy == "" || s.Policy == ChoiceOrdered {
		by = nil
	}
	var up []int
	var offers []Offer
	probe := -1
	as.mu.Lock()
	for i, a := range candidates {
		switch {
		case !a.brake.Brakes():
			up = append(up, i)
			offers = append(offers, Offer{a.Name(), a.entry.price(s.Identity.Type), a.limit(), a.inFlight >= a.limit()})
		case probe < 0 && now.Sub(a.tried) >= a.brake.Every && (by != nil || len(up) == 0):
			probe = i
		}
	}
	if probe >= 0 {
		candidates[probe].tried = now // not by Next, which is on Redis' clock; if another replica probed, place refuses
	}
	as.mu.Unlock()
	switch {
	case probe >= 0:
		return probe, ChoiceProbe
	case len(up) == 0:
		return 0, ChoiceOrdered
	case by == nil:
		return up[0], ChoiceOrdered
	}
	i, choice := by.Choose(s, offers)
	return up[i], choice
}

// refreshEvery is the time between two reads of a provider's thread limit and balance.
const refreshEvery = time.Minute

// refresh reads the thread limits and balances of new providers, and of all once a minute. A provider that
// hangs does not delay the others. During an account fault only orders call the service.
func (b *Buyer) refresh(ctx context.Context) {
	as, now := &b.accounts, time.Now()
	var calls sync.WaitGroup
	defer calls.Wait()
	for _, a := range as.list() {
		as.mu.Lock()
		due := now.Sub(a.refreshed) >= refreshEvery && a.brake.Kind != pool.BrakeAccount
		if due {
			a.refreshed = now
		}
		as.mu.Unlock()
		if !due {
			continue
		}
		calls.Go(func() {
			_ = panics.Contain(b.log, "panic in a provider", func() { b.refreshAccount(ctx, a) })
		})
	}
}

func (b *Buyer) refreshAccount(ctx context.Context, a *account) {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	was, asked := a.Fault(), time.Now()
	total, ok, err := a.Threads(limited)
	if ctx.Err() != nil {
		return
	}
	if fault := (*provider.Error)(nil); errors.As(err, &fault) && fault.Class == provider.Account {
		b.note(ctx, a, call{was: was, asked: asked, err: err})
	}
	as := &b.accounts
	as.mu.Lock()
	before, turned := a.limit(), a.failed != (err != nil)
	a.failed = err != nil
	switch {
	case err != nil: // the last number stays
	case ok:
		a.threads = max(1, total) // with 0 threads, the answer to an order says why
	default:
		a.threads = 0
	}
	after := a.limit()
	as.mu.Unlock()
	if turned && err != nil {
		b.log.Warn("threads not read; the last known number stays", "provider", a.Name(), "err", err)
	}
	if before != after {
		b.log.Info("concurrency follows the provider's threads", "provider", a.Name(), "concurrency", after, "before", before)
	}
	if err := a.ReadBalance(limited); err != nil {
		b.log.Debug("balance not read", "provider", a.Name(), "err", err)
	}
}

// Status is the state of a provider of the file.
type Status struct {
	Name        string
	State       provider.State
	Brake       pool.Brake // of its key, over all replicas
	InFlight    int        // orders of all replicas; of this one while Redis is away
	Concurrency int
	Silent      bool // callbacks do not arrive, so tasks are polled from the start
	Stranded    int  // orders of this replica whose account is in no file; only of former providers
}

// Providers returns the states of the providers of the file, and of former ones with stranded orders.
func (b *Buyer) Providers(ctx context.Context) []Status {
	b.readBrakes(ctx)
	as, now := &b.accounts, time.Now()
	own, stranded := map[string]int{}, map[string]int{}
	b.mu.Lock()
	for _, o := range b.running {
		switch {
		case o.stranded.Load():
			stranded[o.journal.Account]++
		case o.owned:
			own[o.journal.Account]++
		}
	}
	b.mu.Unlock()
	var list []Status
	var names []string
	for _, a := range as.list() {
		s := Status{Name: a.Name(), State: a.State(now), InFlight: own[a.Name()]}
		as.mu.Lock()
		s.Brake, s.Concurrency, s.Silent = a.brake, a.limit(), a.silent >= silentAfter
		as.mu.Unlock()
		// The brake that all replicas share decides, not what this client has seen.
		s.State.Kind = provider.StateOK
		if brake := s.Brake; brake.Brakes() {
			s.State.Kind, s.State.Reason, s.State.Since, s.State.Until = provider.StateDown, brake.Reason, brake.Since, brake.Next
			if brake.Kind == string(pool.Busy) || brake.Kind == string(pool.Refused) {
				s.State.Kind = provider.StateBusy
			}
		} else {
			s.State.Reason, s.State.Code, s.State.Fault, s.State.Remedy = "", "", "", ""
			s.State.Since, s.State.Until = time.Time{}, time.Time{}
		}
		list, names = append(list, s), append(names, a.Name())
	}
	if counts, err := b.pool.InFlight(ctx, names); err == nil {
		for i, n := range counts {
			list[i].InFlight = n
		}
	}
	for name, n := range stranded {
		list = append(list, Status{Name: name, Stranded: n})
	}
	return list
}

// Outage reports whether no provider takes orders, why, and when the first one may again; zero = unknown.
func Outage(providers []Status) (reason string, until time.Time, is bool) {
	reason = "no provider is configured"
	for _, p := range providers {
		switch {
		case p.Concurrency == 0: // a former one
			continue
		case p.State.Kind.Usable():
			return "", time.Time{}, false
		case until.IsZero():
			reason = fmt.Sprintf("provider %s is %s: %s", p.Name, p.State.Kind, p.State.Reason)
		}
		if until.IsZero() || p.State.Until.Before(until) {
			until = p.State.Until
		}
	}
	return reason, until, true
}

// ErrUnknownProvider means that no provider of the file has the name.
var ErrUnknownProvider = errors.New("no provider has this name")

// Probe tries a provider now, after an operator has repaired its account: it reads the balance, and lets the
// next order pass. Its errors are ErrUnknownProvider and those of Redis.
func (b *Buyer) Probe(ctx context.Context, name string) (Status, error) {
	a := b.accounts.byName(name)
	if a == nil {
		return Status{}, ErrUnknownProvider
	}
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := a.Probe(limited)
	if err != nil {
		b.log.Info("a probe of the provider failed", "provider", name, "err", err)
		err = nil
	} else {
		err = b.pool.Probe(ctx, name, a.key)
	}
	for _, s := range b.Providers(ctx) {
		if s.Name == name {
			return s, err
		}
	}
	return Status{}, err
}
