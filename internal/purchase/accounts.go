package purchase

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/choice"
	"poold/internal/purchase/signature"
)

const (
	// formerFor is how long the account of a removed provider, or a former key, is remembered. formerFor exceeds the
	// longest life of an order.
	formerFor = 26 * time.Hour
	// When silentAfter expected callbacks in a row did not arrive, new tasks are polled from the start.
	silentAfter = 3
)

// Seller is a provider as a Buyer uses it: the part of *provider.Client that it needs. Its values must be comparable,
// because SetProviders recognises an unchanged provider by comparing values.
type Seller interface {
	Name() string
	Timeout() time.Duration
	Pace(t captcha.Type) (firstPoll, interval time.Duration)

	Submit(ctx context.Context, r provider.Submission) (task string, err error)
	SolvedAtOnce(task string) (s provider.Solution, is bool)
	Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error)
	Report(ctx context.Context, task string, t captcha.Type, accepted bool) error
	ReportWindow() time.Duration
	Threads(ctx context.Context) (total int, ok bool, err error)
	ReadBalance(ctx context.Context) error

	Balance() *float64
	Advice(code string) (does, remedy string)
}

// Listing is a provider as the file lists it.
type Listing struct {
	Provider    Seller
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

// account is what this replica knows about a present or former provider of the file. accounts.mu guards all fields
// except Seller and key.
type account struct {
	Seller

	key       string // of its brake
	listing   Listing
	removed   time.Time  // of the reload that removed it; zero = it is in the file
	brake     pool.Brake // as last read
	inherited bool       // the brake is the former key's, and no call has proved this one
	// when this replica noticed the brake, or last chose the account for a probe; zero = an operator has asked for a probe
	tried     time.Time
	threads   int // most orders that the service allows; 0 = unknown
	inFlight  int // orders, as last read
	refreshed time.Time
	silent    int // expected callbacks in a row that did not arrive
	submits   streak
	polls     streak

	solved    time.Time // when this replica last noticed a token, or the end of a brake
	slowPolls bool      // an account fault refused a poll: tasks are asked for slowly until the service answers one
}

// limit returns the maximum number of orders in flight that the file and the service allow.
func (a *account) limit() int {
	limit := max(1, a.listing.Concurrency)
	if a.threads > 0 {
		limit = min(limit, a.threads)
	}
	return limit
}

// accounts has the providers in the order of the file, and former providers. It is safe for concurrent use.
type accounts struct {
	mu     sync.Mutex
	listed []*account
	former []*account // the latest removed first
}

// SetProviders replaces the providers. Orders in flight keep their account, even if its provider was removed or its key
// has changed.
func (b *Buyer) SetProviders(listings []Listing) {
	var providers []choice.Offer
	for _, l := range listings {
		b.secrets.Remember(l.Callbacks.Secrets)
		providers = append(providers, choice.Offer{Name: l.Provider.Name(), Price: l.Price})
	}
	b.Chooser.SetProviders(providers)
	as, now := &b.accounts, time.Now()
	as.mu.Lock()
	old := as.listed
	as.listed = nil
	for _, l := range listings {
		i := slices.IndexFunc(old, func(a *account) bool { return a.Seller == l.Provider })
		a := &account{Seller: l.Provider, key: brakeKey(l.Provider.Name(), l.Fingerprint)}
		if i >= 0 {
			a = old[i]
		} else if i = slices.IndexFunc(old, func(o *account) bool { return o.Name() == a.Name() }); i >= 0 {
			a.brake, a.inherited = old[i].brake, isDown(old[i].brake) // this key may be the repair
		}
		a.listing = l
		as.listed = append(as.listed, a)
	}
	for _, a := range old {
		if !slices.Contains(as.listed, a) {
			a.removed = now
			as.former = slices.Insert(as.former, 0, a)
		}
	}
	as.former = slices.DeleteFunc(as.former, func(a *account) bool {
		same := func(listed *account) bool { return listed.listing.Fingerprint == a.listing.Fingerprint }
		return now.Sub(a.removed) > formerFor || slices.ContainsFunc(as.listed, same)
	})
	as.mu.Unlock()
	b.missed.Clear()
}

// of returns the account that polls the task of an order, or nil. If a former key submitted the order, and this replica
// still knows that key, the second result is the account with it.
func (as *accounts) of(f *facts) (present, former *account) {
	as.mu.Lock()
	defer as.mu.Unlock()
	same := func(a *account) bool { return a.listing.Fingerprint == f.Fingerprint }
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

// byName returns the provider of the file that has the given name, or nil.
func (as *accounts) byName(name string) *account {
	for _, a := range as.list() {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

// list returns the providers of the file without the former ones.
func (as *accounts) list() []*account {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Clone(as.listed)
}

// Pace returns how long orders at the first provider wait before the first poll and between polls. Without a provider
// both are 0.
func (b *Buyer) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	if list := b.accounts.list(); len(list) > 0 {
		return list[0].Pace(t)
	}
	return 0, 0
}

// terms returns what the file says about an account, and the brake of its key. The result silent means that the last
// callbacks did not arrive, so new tasks are polled from the start.
func (as *accounts) terms(a *account) (l Listing, brake pool.Brake, silent bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	l = a.listing
	l.Concurrency = a.limit()
	return l, a.brake, a.silent >= silentAfter
}

// choose chooses a candidate without a brake: the first one, or with another policy than ordered the Chooser's choice.
// A braked candidate gets the order as a probe when one is due. With the policy ordered, this holds only if no earlier
// candidate is up; with others it always holds, because the Chooser never chooses a braked candidate. If all candidates
// are braked, the first one gets the order, so that its brake refuses the order with a reason.
func (b *Buyer) choose(s *Spec, candidates []*account) (index int, how string) {
	as, now := &b.accounts, time.Now()
	ordered := s.ordered()
	var up []int
	probe := -1
	as.mu.Lock()
	for i, a := range candidates {
		switch {
		case !a.brake.On():
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
	var offers []choice.Offer
	for _, i := range up {
		l, _, _ := as.terms(candidates[i])
		offers = append(offers, choice.Offer{Name: candidates[i].Name(), Price: l.Price})
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
