// Package usedup records which budgets refused orders.
package usedup

import (
	"sync"
	"time"

	"poold/internal/pool"
)

// Budget describes a budget that has refused an order of this replica.
type Budget struct {
	Of     pool.Budget // the shared budget; "" = the budget of the target in Target
	Target string      // name of the target; "" for a shared budget
	Until  time.Time   // when the budget has room again; zero = the budget has accepted an order since
}

// key identifies a budget.
type key struct {
	of     pool.Budget
	target string // "" for a shared budget
}

// Budgets records which budgets refused an order of this replica. It is safe for concurrent use.
// The zero value contains no budgets.
type Budgets struct {
	mu    sync.Mutex
	known map[key]Budget
}

// Refused records that a budget refused an order.
func (b *Budgets) Refused(of pool.Budget, target string, wait time.Duration) {
	if of != "" {
		target = ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[key]Budget{}
	}
	b.known[key{of, target}] = Budget{Of: of, Target: target, Until: time.Now().Add(wait)}
}

// Placed records that the budgets of a placed order had room.
func (b *Budgets) Placed(booked []pool.Budget, target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clearLocked(key{"", target})
	for _, of := range booked {
		b.clearLocked(key{of, ""})
	}
}

func (b *Budgets) clearLocked(k key) {
	if known, is := b.known[k]; is {
		known.Until = time.Time{}
		b.known[k] = known
	}
}

// List returns the budgets that refused an order.
func (b *Budgets) List() []Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Budget, 0, len(b.known))
	for _, known := range b.known {
		list = append(list, known)
	}
	return list
}
