package purchase

import (
	"context"
	"slices"
	"time"
)

const (
	// tidyEvery is how often leftovers are taken back.
	tidyEvery = time.Second
	// budgetWindow is how long a solve counts in the budget over all targets.
	budgetWindow = 24 * time.Hour
)

// leftover is an order of which a step had no answer. A Redis that hangs may
// carry that step out when it goes on, after the order was taken back, and the
// order would count until its time is over.
type leftover struct {
	order *Order
	once  bool // taken back once; a second time makes sure
}

// leave remembers an order to be taken back again.
func (d *Desk) leave(o *Order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leftovers = append(d.leftovers, leftover{order: o})
}

// tidy takes every leftover back, twice, or until Redis itself forgets it; what
// stands in the budget is not forgotten for a day.
func (d *Desk) tidy(ctx context.Context) {
	d.mu.Lock()
	due := d.leftovers
	d.leftovers = nil
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leftovers = append(due, d.leftovers...)
	}()
	due = slices.DeleteFunc(due, func(l leftover) bool {
		forgotten := l.order.deadline
		if l.order.booked {
			forgotten = forgotten.Add(budgetWindow)
		}
		return time.Now().After(forgotten)
	})
	for i := range due {
		l := &due[i]
		if d.takeBack(ctx, l.order.provider, l.order.Ref, l.order.booked) != nil {
			break // Redis is still away
		}
		if l.once {
			l.order = nil
		}
		l.once = true
	}
	due = slices.DeleteFunc(due, func(l leftover) bool { return l.order == nil })
}
