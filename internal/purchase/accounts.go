package purchase

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
	"poold/internal/refill/choice"
)

const (
	// formerFor is how long the account of a removed provider, or a former key, is remembered. It exceeds the
	// longest life of an order.
	formerFor = 26 * time.Hour
	// refreshEvery is the time between two reads of a provider's thread limit and balance.
	refreshEvery = time.Minute
	// accountEvery is the shortest time between two probes of an account with a fault, and outageEvery between
	// two probes of a service without proper answers.
	accountEvery, outageEvery = time.Minute, 10 * time.Second
	// outageAfter is the number of calls in a row without a proper answer after which there is an outage, and outageFor
	// the time after which two are enough: a service that answers 503 to all submits gets few. They concern at least
	// two orders: the odd answers of one task are that task's fault.
	outageAfter, outageFor = 5, 10 * time.Second
	// silentAfter is the number of expected callbacks in a row that did not arrive, after which tasks are
	// polled from the start.
	silentAfter = 3
	// mostReports limits the reports that are passed on at once.
	mostReports = 64
)

// Provider is the part of *provider.Client that a Buyer needs. Values are comparable: SetProviders knows an
// unchanged provider by its value.
type Provider interface {
	Name() string
	Timeout() time.Duration
	Pace(t captcha.Type) (firstPoll, interval time.Duration)

	Submit(ctx context.Context, r provider.Request) (task string, err error)
	SolvedAtOnce(task string) (s provider.Solution, is bool)
	Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error)
	Report(ctx context.Context, task string, t captcha.Type, good bool) error
	ReportWindow() time.Duration
	Threads(ctx context.Context) (total int, ok bool, err error)
	ReadBalance(ctx context.Context) error

	Balance() *float64
	Advice(code string) (does, remedy string)
}

// Entry is a provider of the file.
type Entry struct {
	Provider    Provider
	Fingerprint string // of its account and key
	Concurrency int    // most orders in flight, of all replicas
	Simulated   bool   // it costs nothing, and no site accepts its tokens
	Callbacks   Callbacks
	Price       func(captcha.Type) float64 // of a token; negative = unknown
}

// Fingerprint returns the fingerprint of an account and its key. It does not depend on the provider's name, so
// that a renamed provider is recognised, and is too short to reveal the key.
func Fingerprint(protocol, url string, key captcha.Secret) string {
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
	inherited bool       // the brake is the former key's, and no call has proved this one
	// when this replica saw the brake begin, or chose the account as a probe; zero = an operator probes it
	tried     time.Time
	threads   int // most orders that the service allows; 0 = unknown
	inFlight  int // orders, as last read
	refreshed time.Time
	silent    int // expected callbacks in a row that did not arrive
	submits   streak
	polls     streak

	slowPolls bool // an account fault refused a poll: tasks are asked for slowly until the service answers one
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
	var providers []choice.Provider
	for _, e := range entries {
		b.secrets.Remember(e.Callbacks.Secrets)
		providers = append(providers, choice.Provider{Name: e.Provider.Name(), Price: e.Price})
	}
	b.Chooser.SetProviders(providers)
	as, now := &b.accounts, time.Now()
	as.mu.Lock()
	old := as.listed
	as.listed = nil
	for _, e := range entries {
		i := slices.IndexFunc(old, func(a *account) bool { return a.Provider == e.Provider })
		a := &account{Provider: e.Provider, key: brakeKey(e.Provider.Name(), e.Fingerprint)}
		if i >= 0 {
			a = old[i]
		} else if i = slices.IndexFunc(old, func(o *account) bool { return o.Name() == a.Name() }); i >= 0 {
			a.brake, a.inherited = old[i].brake, isDown(old[i].brake) // this key may be the repair
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
	as.former = slices.DeleteFunc(as.former, func(a *account) bool {
		same := func(listed *account) bool { return listed.entry.Fingerprint == a.entry.Fingerprint }
		return now.Sub(a.removed) > formerFor || slices.ContainsFunc(as.listed, same)
	})
	as.mu.Unlock()
	b.missed.Clear()
}

// of returns the account at which the task of an order is asked for, and the account with the key that
// submitted it, if that is known and another one. nil = none.
func (as *accounts) of(f *facts) (present, former *account) {
	as.mu.Lock()
	defer as.mu.Unlock()
	same := func(a *account) bool { return a.entry.Fingerprint == f.Fingerprint }
	var renamed, rotated *account
	for _, a := range as.listed {
		switch {
		case same(a) && a.Name() == f.Provider:
			return a, nil
		case same(a):
			renamed = a
		case a.Name() == f.Provider:
			rotated = a
		}
	}
	if i := slices.IndexFunc(as.former, same); i >= 0 {
		former = as.former[i]
	}
	if renamed == nil && rotated != nil {
		return rotated, former
	}
	return cmp.Or(renamed, former), nil
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

// Pace returns the poll times of the first provider. Without a provider they are 0.
func (b *Buyer) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	if list := b.accounts.list(); len(list) > 0 {
		return list[0].Pace(t)
	}
	return 0, 0
}

// terms returns the terms of an account for a new order, its brake, and whether its callbacks do not arrive.
func (as *accounts) terms(a *account) (e Entry, brake pool.Brake, silent bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	e = a.entry
	e.Concurrency = a.limit()
	return e, a.brake, a.silent >= silentAfter
}

// choose chooses a candidate: the first that is up, or the Chooser's choice. A braked candidate gets the order
// if a probe is due: with the policy ordered if no earlier candidate is up, else at once, because otherwise it
// would never get an order again. If all are braked, the first refuses the order and says why.
func (b *Buyer) choose(s *Spec, candidates []*account) (index int, how string) {
	as, now := &b.accounts, time.Now()
	ordered := s.ordered()
	var up []int
	probe := -1
	as.mu.Lock()
	for i, a := range candidates {
		switch {
		case !a.brake.Brakes():
			up = append(up, i)
		case probe < 0 && (a.tried.IsZero() || now.Sub(a.tried) >= a.brake.Every && (!ordered || len(up) == 0)):
			probe = i
		}
	}
	if s.Probe && len(up) > 0 {
		probe = -1
	}
	if probe >= 0 {
		candidates[probe].tried = now // not by Next, which is on Redis' clock; if another replica probed, place refuses
	}
	as.mu.Unlock()
	switch {
	case probe >= 0:
		return probe, choice.Probe
	case len(up) == 0:
		return 0, choice.Ordered
	case ordered:
		return up[0], choice.Ordered
	}
	var offers []choice.Provider
	for _, i := range up {
		e, _, _ := as.terms(candidates[i])
		offers = append(offers, choice.Provider{Name: candidates[i].Name(), Price: e.Price})
	}
	i, how := b.Chooser.Choose(s.Policy, s.Identity.Type, !s.Urgent, offers)
	return up[i], how
}

// probeIn lets this replica probe an account again after a time.
func (as *accounts) probeIn(a *account, after time.Duration) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.tried = time.Now().Add(min(after, a.brake.Every) - a.brake.Every)
}

// refresh reads the thread limits and balances of new providers, and of all once a minute. A provider that
// hangs does not delay the others. During an account fault only orders call the service, unless its balance was empty.
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
		b.note(ctx, a, call{poll: true, asked: asked, err: err}) // like a poll, it says nothing about submits
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

// Status is the state of a provider of the file.
type Status struct {
	Name        string
	State       provider.State
	Brake       pool.Brake // of its key, over all replicas
	InFlight    int        // orders of all replicas; while Redis is away, as last read
	Concurrency int
	Silent      bool // callbacks do not arrive, so tasks are polled from the start
}

// Providers returns the states of the providers of the file, by the brake that all replicas share.
func (b *Buyer) Providers(ctx context.Context) []Status {
	b.readBrakes(ctx)
	as := &b.accounts
	listed := as.list()
	var list []Status
	var names []string
	for _, a := range listed {
		names = append(names, a.Name())
	}
	counts, err := b.c.Pool.InFlight(ctx, names)
	for i, a := range listed {
		e, brake, silent := as.terms(a)
		as.mu.Lock()
		if err == nil {
			a.inFlight = counts[i]
		}
		list = append(list, Status{Name: a.Name(), State: stateOf(a, brake), Brake: brake, InFlight: a.inFlight,
			Concurrency: e.Concurrency, Silent: silent})
		as.mu.Unlock()
	}
	return list
}

// stateOf returns the state of a provider whose key has a brake.
func stateOf(p Provider, brake pool.Brake) provider.State {
	s := provider.State{Kind: provider.StateOK, Balance: p.Balance()}
	if !brake.Brakes() {
		return s
	}
	s.Kind, s.Reason, s.Since, s.Until = provider.StateDown, brake.Reason, brake.Since, brake.Next
	switch brake.Kind {
	case string(pool.Busy), string(pool.Refused):
		s.Kind = provider.StateBusy
		if time.Since(brake.Next) > outageEvery { // no order tried it lately
			return provider.State{Kind: provider.StateOK, Balance: s.Balance}
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
	}
	return s
}

// ErrUnknownProvider means that no provider of the file has the name.
var ErrUnknownProvider = errors.New("no provider has this name")

// Probe tries a provider now, after an operator has repaired its account: it reads the balance. If that proves the
// repair, the provider is up; else the next order passes. The error is ErrUnknownProvider, the service's error, or
// pool.ErrDown.
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
	if balance := a.Balance(); balance != nil && *balance > 0 && !isBan {
		_, err := b.c.Pool.Lift(ctx, name, a.key, 0)
		return err
	}
	return b.c.Pool.Retry(ctx, a.key, name)
}

// streak counts calls in a row that had no proper answer.
type streak struct {
	failures int
	since    time.Time // the first failure
	order    string    // of the first failure
	several  bool      // they concern several orders
}

func (s *streak) add(order string) (outage bool) {
	if s.failures++; s.failures == 1 {
		s.since, s.order = time.Now(), order
	}
	s.several = s.several || s.order != order
	return s.several && (s.failures >= outageAfter || time.Since(s.since) >= outageFor)
}

// call is a finished submit or poll.
type call struct {
	poll  bool
	order string
	asked time.Time
	err   error
}

// note brakes an account, or lifts its brake, after a call with its key. A failed submit that is busy or
// refused is counted by the end of its order, and an accepted one proves the account when its task is
// stored.
func (b *Buyer) note(ctx context.Context, a *account, c call) {
	as, ago := &b.accounts, time.Since(c.asked)
	var fault *provider.Error
	if errors.As(c.err, &fault) && fault.Class == provider.Account {
		as.mu.Lock()
		a.slowPolls = a.slowPolls || c.poll
		as.mu.Unlock()
		b.setBrake(ctx, a.key, pool.BrakeAccount, fault.Error(), max(accountEvery, fault.Delay), ago)
		return
	}
	counts, failed := isProper(c.err)
	if !counts {
		return
	}
	as.mu.Lock()
	s, kind, known := &a.submits, pool.BrakeOutage, a.brake
	if c.poll {
		s, kind = &a.polls, pool.BrakePolls
	}
	a.inherited = a.inherited && failed
	first := failed && !c.poll && s.failures == 0
	outage := failed && s.add(c.order)
	if !failed {
		*s = streak{}
		a.slowPolls = a.slowPolls && !c.poll
	}
	as.mu.Unlock()
	if first {
		b.c.Log.Warn("a submit got no proper answer", "provider", a.Name(), "err", c.err)
	}
	switch {
	case outage && !c.poll && known.Kind == pool.BrakePolls: // the trial stays a poll
	case outage:
		every := max(outageEvery, fault.Delay)
		if _, interval := a.Pace(""); c.poll {
			every = max(every, 2*interval) // so that a poll in flight is the trial, not an order
		}
		b.setBrake(ctx, a.key, kind, "no proper answer: "+fault.Error(), every, ago)
	case failed || !c.poll:
	case known.Kind == pool.BrakePolls: // the answered poll ends an outage of polls
		// without an answer, the next answered poll tries again
		_, _ = b.c.Pool.Lift(context.WithoutCancel(ctx), a.Name(), a.key, ago)
	}
}

// isProper reports whether a call says anything about the service, and whether it had no proper answer. The
// codes of package provider are lower case, the services' codes are not.
func isProper(err error) (counts, failed bool) {
	var fault *provider.Error
	switch {
	case err == nil, errors.Is(err, provider.ErrNotReady):
		return true, false
	case !errors.As(err, &fault), fault.Code == "caller_gave_up": // no call, or the caller did not wait for its end
		return false, false
	}
	isOurs := fault.Code == strings.ToLower(fault.Code)
	return true, fault.Class == provider.Capacity && isOurs && fault.Code != "http_429"
}

// setBrake sets the brake of a key. Without an answer of Redis the next failed call tries again.
func (b *Buyer) setBrake(ctx context.Context, key, kind, reason string, every, ago time.Duration) {
	_, _ = b.c.Pool.Brake(context.WithoutCancel(ctx), key, kind, reason, every, ago)
}

// pollsSlowly reports whether the service refuses polls because of an account fault.
func (as *accounts) pollsSlowly(a *account) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.slowPolls
}

// readBrakes reads the brakes of the accounts' keys. Each replica logs that a provider is down, and its end, also if
// other replicas met it.
func (b *Buyer) readBrakes(ctx context.Context) {
	as := &b.accounts
	listed := as.list()
	var keys []string
	for _, a := range listed {
		keys = append(keys, a.key)
	}
	brakes, err := b.c.Pool.Brakes(ctx, keys)
	if err != nil {
		return
	}
	var stuck []string
	all := !slices.ContainsFunc(brakes, func(other pool.Brake) bool { return !isDown(other) })
	none := !slices.ContainsFunc(brakes, func(other pool.Brake) bool { return !other.Brakes() })
	for i, a := range listed {
		as.mu.Lock()
		before, now := a.brake, brakes[i]
		if a.inherited = a.inherited && !now.Brakes(); a.inherited {
			now = before
		} else if isDown(before) && isDown(now) && before.Since.Before(now.Since) {
			now.Since = before.Since // the new key is wrong, too
		}
		if a.brake = now; !before.Brakes() && now.Brakes() {
			a.tried = time.Now()
		} else if now.Brakes() && !now.Next.Equal(before.Next) && time.Until(now.Next) < now.Every/2 { // Buyer.Probe
			a.tried = time.Time{} // the next order goes there, also if another provider is up
		}
		if before.Brakes() && !now.Brakes() {
			a.slowPolls = false
		}
		if isDown(before) != isDown(now) {
			a.refreshed = time.Time{} // the balance may have changed
		}
		as.mu.Unlock()
		b.announce(a, before, now, none)
		if isStuck(now) && !all { // else no order could replace those that are stuck
			stuck = append(stuck, a.Name())
		}
	}
	if b.c.Pool.SetStuck(stuck) && b.Turn != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, o := range b.running {
			if o.waits.Load() && slices.Contains(stuck, o.facts.Provider) {
				b.Turn(o.facts.ID)
			}
		}
	}
}

// isDown reports whether a brake is more than a busy service.
func isDown(brake pool.Brake) bool {
	return brake.Brakes() && brake.Kind != string(pool.Busy) && brake.Kind != string(pool.Refused)
}

// isEmpty reports whether the fault of an account is its empty balance.
func isEmpty(brake pool.Brake) bool { return strings.Contains(brake.Reason, "BALANCE") }

// isStuck reports whether the service answers no polls of a key, so that orders in flight bring no token. With an empty
// balance it does.
func isStuck(brake pool.Brake) bool {
	return brake.Brakes() && (brake.Kind == pool.BrakePolls || brake.Kind == pool.BrakeAccount && !isEmpty(brake))
}

// announce logs that a provider went down or up, or that its account has a fault besides. The argument none reports
// whether no provider takes orders.
func (b *Buyer) announce(a *account, before, now pool.Brake, none bool) {
	is := isDown(now)
	if is == isDown(before) && (now.Kind != pool.BrakeAccount || now.Kind == before.Kind) {
		return
	}
	state, log := stateOf(a, now), b.c.Log.Warn
	if now.Kind == pool.BrakeAccount || none { // an operator must act
		log = b.c.Log.Error
	}
	if is {
		log("a provider is down", "provider", a.Name(), "reason", state.Notice(a.Name(), none),
			"from", now.Since.Truncate(time.Second), "retry_at", now.Next.UTC().Truncate(time.Second))
	} else {
		state.Since = before.Since
		b.c.Log.Info("a provider is up again", "provider", a.Name(), "took", time.Since(before.Since).Round(time.Second))
	}
	if b.c.ProviderChanged != nil {
		b.c.ProviderChanged(a.Name(), is, state, none)
	}
}

// noteCallback notes whether an expected callback arrived, and logs when they stop and when they start again.
func (b *Buyer) noteCallback(a *account, came bool) {
	b.accounts.mu.Lock()
	before := a.silent
	if a.silent++; came {
		a.silent = 0
	}
	after := a.silent
	b.accounts.mu.Unlock()
	switch {
	case after == silentAfter:
		b.c.Log.Warn("callbacks do not arrive, so tasks are polled: check that the service can reach callback_url, the base address",
			"provider", a.Name(), "tasks", silentAfter)
	case came && before >= silentAfter:
		b.c.Log.Info("callbacks arrive again", "provider", a.Name())
	}
}

// The outcomes of a report.
const (
	ReportPassed  = "passed"
	ReportLate    = "late"    // the service no longer accepts a report
	ReportRefused = "refused" // not passed on, or the service did not take it
)

// Report passes to the provider, in the background, whether a site accepted the token of a task. The token has
// this age. Report does not block: while too many reports are on their way, it drops this one.
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
