package purchase

import (
	"time"

	"poold/internal/permits"
	"poold/internal/provider"
)

// offer is an account as an admission saw it, so that the provider is asked
// without a lock held.
type offer struct {
	*account
	full    bool
	after   time.Duration // full: how long until it is worth looking again
	bounded bool          // it refused the last submits of all targets
}

// offers lists the accounts and the channel that tells of the next change.
func (as *accounts) offers(at time.Time) ([]offer, <-chan struct{}) {
	as.mu.Lock()
	defer as.mu.Unlock()
	offers := make([]offer, len(as.listed))
	for i, a := range as.listed {
		offers[i] = offer{account: a, bounded: a.refusals >= permits.MostRefusals}
		if a.taken >= a.limitLocked() {
			offers[i].full, offers[i].after = true, lookAgain
		} else if wait := max(a.fullUntil.Sub(at), a.turnAt.Sub(at)); wait > 0 {
			offers[i].full, offers[i].after = true, wait
		}
	}
	return offers, as.changed
}

// choose picks the first account that is ready and not full; nil and a time to
// wait where there is none.
func choose(offers []offer, at time.Time) (*account, time.Duration) {
	wait := lookAgain
	for _, o := range offers {
		if o.full {
			// A full provider is not asked whether it is ready: while it is
			// paused that question hands out its one probe a minute, which
			// would then go unused. One that is well is worth waiting for.
			if !o.bounded && o.State(at).Kind == provider.StateOK {
				return nil, min(wait, o.after)
			}
			continue
		}
		ready, after := o.Ready(at)
		if ready {
			return o.account, 0
		}
		wait = min(wait, max(after, lookSoonest))
	}
	return nil, wait
}

// take books a slot. Of admissions only the one that is served takes, so nobody else can
// have filled the account since it was chosen; adopted orders take beyond its limit.
func (as *accounts) take(a *account) *Slot {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.taken++
	return &Slot{accounts: as, account: a}
}

// Slot is the right to have one order under way at one provider. The zero
// value is a slot of nobody.
type Slot struct {
	accounts *accounts
	account  *account
	used     func() // called when the order has its permit; may be nil
	freed    bool   // guarded by accounts.mu
}

// Free gives the slot back; doing so twice is harmless.
func (s *Slot) Free() {
	if s.accounts == nil {
		return
	}
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	// Mostly a place in Redis was given back with it, so it is worth asking.
	s.freeLocked(time.Time{})
}

// full gives the slot back because other replicas have filled the account: it is left
// alone for a moment.
func (s *Slot) full() {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.freeLocked(time.Now().Add(fullFor))
}

// freeLocked gives the slot back and leaves the account alone until then.
func (s *Slot) freeLocked(fullUntil time.Time) {
	if s.freed {
		return
	}
	s.freed = true
	s.account.taken--
	s.account.fullUntil = fullUntil
	s.accounts.notifyLocked()
}
