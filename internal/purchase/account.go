package purchase

import (
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
)

// formerFor is how long the account of a removed provider is kept. It exceeds the longest time that
// a task can be in flight.
const formerFor = 26 * time.Hour

// Account returns the id of an account at a service. The id does not depend on the provider's name
// in the file: any provider with the same API, address and key can poll the account's tasks. Redis
// stores the id. The id is too short to reveal the key.
func Account(api, url string, key captcha.Secret) string {
	return hex.EncodeToString(signature.MAC(key, "poold account", api, strings.TrimRight(url, "/"))[:6])
}

// account is a provider and its slots on this replica. The mutex of accounts guards all fields
// except Provider.
type account struct {
	Provider

	id               string    // see Account; "" = unknown
	concurrency      int       // the limit in the file
	simulated        bool      // see Entry.Simulated
	callbacks        Callbacks // settings for new orders
	price            func(captcha.Type) float64
	threads          int       // limit that the provider reports; 0 = none
	slotsUsed        int       // slots in use on this replica
	fullUntil        time.Time // no order is tried before this time, because other replicas have the remaining permits
	turnAt           time.Time // no order is tried before this time, because another order probes the account
	threadsRead      bool      // maintenance has read the provider's limit
	removed          time.Time // time of the reload that removed the provider; zero = still configured
	threadsFailed    bool      // a failed read of the provider's limit has been logged
	unanswered       bool      // the last submit had no answer, and this has been logged
	missingCallbacks int       // number of consecutive tasks without their callback
	shared           faultKey  // the fault that was last shared with the other replicas
	refusals         int       // consecutive refused submits, over all replicas, as last read from Redis
}

// silentAfter is a number of consecutive missing callbacks. After this number, new tasks are polled
// without waiting for a callback.
const silentAfter = 3

// silentLocked reports whether the account's latest silentAfter callbacks are missing.
func (a *account) silentLocked() bool { return a.missingCallbacks >= silentAfter }

// limitLocked returns the maximum number of orders in flight. This is the lower of the file's limit
// and the provider's limit.
func (a *account) limitLocked() int {
	if a.threads > 0 {
		return min(a.concurrency, a.threads)
	}
	return a.concurrency
}

// accountTerms are an account's terms for a new order.
type accountTerms struct {
	id        string
	limit     int // maximum number of orders in flight over all replicas
	simulated bool
	price     func(captcha.Type) float64
	callbacks Callbacks
}

// The type accounts stores the configured providers, in the order in which they are tried, and the
// removed providers. It is safe for concurrent use.
type accounts struct {
	*base
	arrived chan struct{} // wakes maintenance when a provider was added

	mu      sync.Mutex
	listed  []*account
	former  []*account    // removed accounts whose orders may be in flight; the latest removed first
	changed chan struct{} // closed and replaced when a slot is freed or the list changes
}

func newAccounts(b *base) *accounts {
	return &accounts{base: b, arrived: make(chan struct{}, 1), changed: make(chan struct{})}
}

// replace replaces the providers. An entry with the same Provider value keeps its slots and
// state.
func (as *accounts) replace(entries []Entry) {
	as.mu.Lock()
	defer as.mu.Unlock()
	old := as.listed
	as.listed = make([]*account, 0, len(entries))
	for _, e := range entries {
		i := slices.IndexFunc(old, func(a *account) bool { return a.Provider == e.Provider })
		a := &account{Provider: e.Provider}
		if i >= 0 {
			a = old[i]
		}
		a.id, a.removed = e.Account, time.Time{}
		a.concurrency, a.simulated, a.callbacks, a.price = max(1, e.Concurrency), e.Simulated, e.Callbacks, e.Price
		if a.price == nil {
			a.price = func(captcha.Type) float64 { return 0 }
		}
		as.listed = append(as.listed, a)
	}
	as.keepFormerLocked(old, time.Now())
	as.notifyLocked()
	select {
	case as.arrived <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// notifyLocked wakes the scheduler.
func (as *accounts) notifyLocked() {
	close(as.changed)
	as.changed = make(chan struct{})
}

// keepFormerLocked records the accounts that are no longer configured. Of several such accounts
// with the same id, it keeps the one that was removed last. It drops a former account if a
// configured account has the same id.
func (as *accounts) keepFormerLocked(old []*account, at time.Time) {
	for _, a := range old {
		if !slices.Contains(as.listed, a) {
			a.removed = at
			as.former = append([]*account{a}, as.former...)
		}
	}
	var seen []string
	for _, a := range as.listed {
		seen = append(seen, a.id)
	}
	as.former = slices.DeleteFunc(as.former, func(a *account) bool {
		known := a.id == "" || slices.Contains(seen, a.id)
		seen = append(seen, a.id)
		return known || at.Sub(a.removed) > formerFor
	})
}

// configured returns the configured accounts. A reload creates a new list.
func (as *accounts) configured() []*account {
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.listed
}

// names returns the names of the configured providers.
func (as *accounts) names() (names []string) {
	for _, a := range as.configured() {
		names = append(names, a.Name())
	}
	return names
}

// byName returns the configured provider with the given name, or nil.
func (as *accounts) byName(name string) *account {
	for _, a := range as.configured() {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

// accountOf returns the account at which an order can be polled, or nil. The arguments are the name
// and the id of the order's account at the time of the placement. If no account has the id,
// accountOf returns the account with the name, because the account's key may have changed.
func (as *accounts) accountOf(name, id string) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	known := slices.Concat(as.listed, as.former)
	for _, fits := range []func(*account) bool{
		func(a *account) bool { return a.id == id && a.Name() == name },
		func(a *account) bool { return a.id == id && id != "" },
		func(a *account) bool { return a.Name() == name },
	} {
		if i := slices.IndexFunc(known, fits); i >= 0 {
			return known[i]
		}
	}
	return nil
}

// nextAccount returns the account that would get an order now, or nil.
func (as *accounts) nextAccount() *account {
	listed, at := as.configured(), time.Now()
	for _, a := range listed {
		if a.State(at).Kind == provider.StateOK {
			return a
		}
	}
	if len(listed) == 0 {
		return nil
	}
	return listed[0]
}

// termsOf returns an account's terms for a new order.
func (as *accounts) termsOf(a *account) accountTerms {
	as.mu.Lock()
	defer as.mu.Unlock()
	return accountTerms{id: a.id, limit: a.limitLocked(), simulated: a.simulated, price: a.price, callbacks: a.callbacks}
}

// silent is silentLocked for a caller that does not hold the lock.
func (as *accounts) silent(a *account) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.silentLocked()
}

// noteCallback records whether an expected callback arrived. It logs when callbacks stop arriving
// and when they start again.
func (as *accounts) noteCallback(a *account, came bool) {
	as.mu.Lock()
	before := a.silentLocked()
	if came {
		a.missingCallbacks = 0
	} else {
		a.missingCallbacks++
	}
	after := a.silentLocked()
	as.mu.Unlock()
	switch {
	case after && !before:
		as.log.Warn("callbacks do not arrive, so tasks are polled: check that the service can reach callback_url, and that it is the base address",
			"provider", a.Name(), "tasks", silentAfter)
	case before && !after:
		as.log.Info("callbacks arrive again", "provider", a.Name())
	}
}

// noteAnswer records whether a submit had an answer. It returns true if only one of this submit and
// the previous submit had an answer.
func (as *accounts) noteAnswer(a *account, answered bool) (changed bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	changed = a.unanswered == answered
	a.unanswered = !answered
	return changed
}

// list returns the names and states of the configured providers. InFlight counts only
// this replica's orders.
func (as *accounts) list(at time.Time) (names []string, list []Status) {
	for _, a := range as.configured() {
		names, list = append(names, a.Name()), append(list, as.status(a, at))
	}
	return names, list
}

// status returns the state of one provider.
func (as *accounts) status(a *account, at time.Time) Status {
	state := a.State(at)
	as.mu.Lock()
	defer as.mu.Unlock()
	if state.Kind == provider.StateOK && a.refusals >= permits.MostRefusals {
		state.Kind = provider.StateBusy
		state.Reason = "it refused the last submits of all targets, so one order is tried each 5s"
	}
	return Status{Name: a.Name(), State: state, InFlight: a.slotsUsed, Concurrency: a.limitLocked(), Silent: a.silentLocked()}
}
