package purchase

import (
	"sync"
	"time"

	"poold/internal/pool"
)

// UsedUp describes a budget that has refused an order of this replica.
type UsedUp struct {
	Of     pool.Budget // the shared budget; "" = the budget of the target in Target
	Target string      // name of the target; "" for a shared budget
	Until  time.Time   // when the budget has room again; zero = the budget has accepted an order since
}

// budgetKey identifies a budget.
type budgetKey struct {
	of     pool.Budget
	target string // "" for a shared budget
}

// usedUp records which budgets refused an order of this replica. It is safe for concurrent use.
// The zero value contains no budgets.
type usedUp struct {
	mu    sync.Mutex
	known map[budgetKey]UsedUp
}

// refused records that a budget refused an order.
func (u *usedUp) refused(of pool.Budget, target string, wait time.Duration) {
	if of != "" {
		target = ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known = map[budgetKey]UsedUp{}
	}
	u.known[budgetKey{of, target}] = UsedUp{Of: of, Target: target, Until: time.Now().Add(wait)}
}

// placed records that the budgets of a placed order had room.
func (u *usedUp) placed(booked []pool.Budget, target string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clearLocked(budgetKey{"", target})
	for _, of := range booked {
		u.clearLocked(budgetKey{of, ""})
	}
}

func (u *usedUp) clearLocked(key budgetKey) {
	if known, is := u.known[key]; is {
		known.Until = time.Time{}
		u.known[key] = known
	}
}

// UsedUp lists the budgets that refused an order of this replica. It does not block.
func (b *Buyer) UsedUp() []UsedUp {
	u := &b.placer.usedUp
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]UsedUp, 0, len(u.known))
	for _, known := range u.known {
		list = append(list, known)
	}
	return list
}

// ProviderStates returns the names and states of the configured providers, without a call to
// Redis. It does not block.
func (b *Buyer) ProviderStates() []Status {
	_, list := b.accounts.list(time.Now())
	return list
}
