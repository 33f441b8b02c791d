package purchase

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/provider"
)

// formerFor is how long a provider that went is remembered: longer than any task of
// it can be under way.
const formerFor = 26 * time.Hour

// Account names an account at a service, whatever the file calls it: who has the
// same API, address and key can be asked about its tasks. It is kept in Redis, so
// it is too short to tell a key from the many others that it would fit.
func Account(api, url string, key captcha.Secret) string {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	_, _ = mac.Write([]byte("poold account\x00" + api + "\x00" + strings.TrimRight(url, "/")))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// account is one provider of the list and its slots on this replica. All but the
// provider is guarded by the lock of its accounts.
type account struct {
	Provider

	id          string    // Account; "" = nobody knows
	concurrency int       // the file's
	callbacks   Callbacks // for the orders to come
	price       func(captcha.Type) float64
	threads     int       // what the provider itself allows; 0 = it does not say
	taken       int       // slots held on this replica
	fullUntil   time.Time // other replicas hold the rest of the places
	turnAt      time.Time // while the account is probed: when this replica asks for the next turn
	asked       bool      // maintenance has been to this provider
	went        time.Time // when it left the list; zero = it stands there
	unread      bool      // threads could not be read; told once
	unanswered  bool      // the last submit had no answer; told once
	uncalled    int       // tasks in a row that should have had a callback and had none
	shared      met       // the fault that the other replicas know
	refusals    int       // submits in a row that were refused, over all replicas, as last read
}

// silentAfter is how many tasks in a row without their callbacks make it likely
// that none can arrive.
const silentAfter = 3

// silentLocked reports whether callbacks are not worth waiting for.
func (a *account) silentLocked() bool { return a.uncalled >= silentAfter }

// limitLocked is the most orders at once: the smaller of the file's number and
// the provider's.
func (a *account) limitLocked() int {
	if a.threads > 0 {
		return min(a.concurrency, a.threads)
	}
	return a.concurrency
}

// accountTerms are those of an order that is placed at an account now.
type accountTerms struct {
	id        string
	limit     int // most orders at once, over all replicas
	price     func(captcha.Type) float64
	callbacks Callbacks
}

// accounts are the providers of the list, in the order in which they are tried, and
// those that went from it. It is safe for concurrent use.
type accounts struct {
	*base
	arrived chan struct{} // wakes maintenance when a provider came

	mu      sync.Mutex
	listed  []*account
	former  []*account    // for orders that others placed there, the last that went in front
	changed chan struct{} // closed and replaced when a slot is freed or the list changes
}

func newAccounts(b *base) *accounts {
	return &accounts{base: b, arrived: make(chan struct{}, 1), changed: make(chan struct{})}
}

// set replaces the list. A provider that stays, the same value, keeps its slots and what
// is known of it.
func (as *accounts) set(entries []Entry) {
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
		a.id, a.went = e.Account, time.Time{}
		a.concurrency, a.callbacks, a.price = max(1, e.Concurrency), e.Callbacks, e.Price
		if a.price == nil {
			a.price = func(captcha.Type) float64 { return 0 }
		}
		as.listed = append(as.listed, a)
	}
	as.retireLocked(old, time.Now())
	as.notifyLocked()
	select {
	case as.arrived <- struct{}{}:
	default: // maintenance is going to look anyway
	}
}

// notifyLocked wakes the admission that waits for a change.
func (as *accounts) notifyLocked() {
	close(as.changed)
	as.changed = make(chan struct{})
}

// retireLocked remembers the accounts of the old list that are not in the new one. Of
// those with one id the last is enough, none where the list has it.
func (as *accounts) retireLocked(old []*account, at time.Time) {
	for _, a := range old {
		if !slices.Contains(as.listed, a) {
			a.went = at
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
		return known || at.Sub(a.went) > formerFor
	})
}

// names lists the names of the list.
func (as *accounts) names() (names []string) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, a := range as.listed {
		names = append(names, a.Name())
	}
	return names
}

// named finds a provider of the list, nil for none.
func (as *accounts) named(name string) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, a := range as.listed {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

// askable finds who can be asked about an order that was placed under a name, at an
// account: who is that account, else who has the name, since its key may have been
// changed. nil is nobody.
func (as *accounts) askable(name, id string) *account {
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

// likely is the one that would be asked now; nil where there is none.
func (as *accounts) likely() *account {
	as.mu.Lock()
	listed := as.listed // replaced whole, never changed
	as.mu.Unlock()
	at := time.Now()
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

// terms are those of an order that is placed now.
func (as *accounts) terms(a *account) accountTerms {
	as.mu.Lock()
	defer as.mu.Unlock()
	return accountTerms{id: a.id, limit: a.limitLocked(), price: a.price, callbacks: a.callbacks}
}

// silent reports whether callbacks are not worth waiting for.
func (as *accounts) silent(a *account) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.silentLocked()
}

// called notes whether a task had the callback that it should have had, and logs
// when that changes what is done.
func (as *accounts) called(a *account, came bool) {
	as.mu.Lock()
	before := a.silentLocked()
	if came {
		a.uncalled = 0
	} else {
		a.uncalled++
	}
	after := a.silentLocked()
	as.mu.Unlock()
	switch {
	case after && !before:
		as.log.Warn("callbacks do not arrive, so tasks are polled as if there were none: is callback_url reachable for the service, and is it the base address alone?",
			"provider", a.Name(), "tasks", silentAfter)
	case before && !after:
		as.log.Info("callbacks arrive again", "provider", a.Name())
	}
}

// answered notes whether a submit was answered and reports whether that is news.
func (as *accounts) answered(a *account, answered bool) (news bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	news = a.unanswered == answered
	a.unanswered = !answered
	return news
}

// list tells how the providers of the list are doing; InFlight counts this replica's
// orders alone.
func (as *accounts) list(at time.Time) (names []string, list []Status) {
	as.mu.Lock()
	listed := as.listed // replaced whole, never changed
	as.mu.Unlock()
	for _, a := range listed {
		names, list = append(names, a.Name()), append(list, as.status(a, at))
	}
	return names, list
}

// status tells how one provider is doing.
func (as *accounts) status(a *account, at time.Time) Status {
	state := a.State(at)
	as.mu.Lock()
	defer as.mu.Unlock()
	if state.Kind == provider.StateOK && a.refusals >= permits.MostRefusals {
		state.Kind = provider.StateBusy
		state.Reason = "it refused the last submits of all targets, so one order is tried each 5s"
	}
	return Status{Name: a.Name(), State: state, InFlight: a.taken, Concurrency: a.limitLocked(), Silent: a.silentLocked()}
}
