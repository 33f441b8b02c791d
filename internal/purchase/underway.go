package purchase

import (
	"context"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// OrderInFlight is an order in flight, at any replica, that may have been submitted.
type OrderInFlight struct {
	Order    pool.Ref
	Identity captcha.Identity // without its proxy
	Target   string           // target for which the order was placed
	Owner    string           // owner of the target
	Provider string           // name of the provider when the order was placed
	Task     string           // the provider's id of the task; "" = unknown
	State    pool.State       // Submitting, Bought or Unknown
	Price    int64            // price of the token in billionths of the currency; negative = unknown
	// Placed and Submitted are times on Redis' clock, in UTC and whole milliseconds.
	Placed, Submitted time.Time
	Age               time.Duration // shortest possible time since the submit
}

// OrdersInFlight lists the orders in flight of all replicas, in any order. It finds the orders
// through their permits, and omits orders that this version of poold cannot read. It returns an
// error if any Redis node does not answer.
func (b *Buyer) OrdersInFlight(ctx context.Context) ([]OrderInFlight, error) {
	names, err := b.stock.Providers(ctx)
	if err != nil {
		return nil, err
	}
	names = append(names, b.accounts.names()...)
	slices.Sort(names)
	var list []OrderInFlight
	for _, name := range slices.Compact(names) {
		refs, err := b.stock.Holders(ctx, name)
		if err != nil {
			return nil, err
		}
		records, err := b.stock.FindAll(ctx, refs)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			o, err := readOrder(r)
			if err != nil || r.State == pool.Intent {
				continue
			}
			placed := time.UnixMilli(int64(r.At)).UTC()
			list = append(list, OrderInFlight{
				Order: o.Ref, Identity: o.spec.Identity, Target: o.spec.Target, Owner: o.spec.Owner,
				Provider: name, Task: o.task, State: r.State, Price: o.price,
				Placed: placed, Submitted: placed.Add(r.Unsolved), Age: time.Since(o.submitted),
			})
		}
	}
	return list, nil
}

// OwnOrdersInFlight lists the orders in flight that this replica runs.
func (b *Buyer) OwnOrdersInFlight(ctx context.Context) ([]OrderInFlight, error) {
	list, err := b.OrdersInFlight(ctx)
	return slices.DeleteFunc(list, func(u OrderInFlight) bool { return b.orders.ownOrder(u.Order) == nil }), err
}
