package purchase

import (
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/provider"
)

// offer is an account with a copy of its state. Thanks to the copy, the provider can be called without
// holding the lock.
type offer struct {
	*account
	up      bool // the provider takes orders; a provider that is not up is only probed
	price   func(captcha.Type) float64
	slots   int // maximum number of orders in flight
	full    bool
	recheck time.Duration // time until the next check of a full account
	bounded bool          // the provider refused the last submits of all targets
}

// offers returns an offer for each configured account, and a channel that is closed when
// an account changes.
func (as *accounts) offers(at time.Time) ([]offer, <-chan struct{}) {
	as.mu.Lock()
	offers := make([]offer, len(as.listed))
	for i, a := range as.listed {
		offers[i] = offer{account: a, bounded: a.refusals >= permits.MostRefusals, price: a.price, slots: a.limitLocked()}
		if a.slotsUsed >= a.limitLocked() {
			offers[i].full, offers[i].recheck = true, recheckEvery
		} else if wait := max(a.fullUntil.Sub(at), a.turnAt.Sub(at)); wait > 0 {
			offers[i].full, offers[i].recheck = true, wait
		}
	}
	changed := as.changed
	as.mu.Unlock()
	for i := range offers {
		offers[i].up = !offers[i].bounded && offers[i].State(at).Kind == provider.StateOK
	}
	return offers, changed
}

// take takes a slot. Only the scheduler takes slots for new orders, so the account has not become full
// since the scheduler's check. Adopted orders take slots beyond the limit.
func (as *accounts) take(a *account) *Slot {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.slotsUsed++
	return &Slot{accounts: as, account: a, choice: Ordered}
}

// Slot is the right to have one order in flight at a provider. Freeing the zero value is a no-op.
type Slot struct {
	accounts *accounts
	account  *account
	choice   Choice // how the account was chosen
	used     func() // called when the order gets its permit; may be nil
	placed   func() // called when the order was placed; may be nil
	freed    bool   // guarded by accounts.mu
}

// Free frees the slot. A second call is a no-op.
func (s *Slot) Free() {
	if s.accounts == nil {
		return
	}
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	// The order's permit was probably released too, so another order can succeed now.
	s.freeLocked(time.Time{})
}

// freeFull frees the slot after other replicas have filled the account. No order is tried at the
// account for the time fullFor.
func (s *Slot) freeFull() {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.freeLocked(time.Now().Add(fullFor))
}

// freeLocked frees the slot. No order is tried at the account before fullUntil.
func (s *Slot) freeLocked(fullUntil time.Time) {
	if s.freed {
		return
	}
	s.freed = true
	s.account.slotsUsed--
	s.account.fullUntil = fullUntil
	s.accounts.notifyLocked()
}
