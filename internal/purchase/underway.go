package purchase

import (
	"context"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// UnderWay is an order under way whose submit may have left, at whichever replica.
type UnderWay struct {
	Order    pool.Ref
	Identity captcha.Identity // without its proxy
	Target   string           // that it was placed for
	Owner    string           // of the target
	Provider string           // under whose name it was placed
	Task     string           // the provider's id; "" = none is known
	State    pool.State       // Submitting, Bought or Unknown
	Price    int64            // of the token, in billionths of the currency; below 0 = unknown
	// Placed and Submitted are in whole milliseconds, UTC, on Redis' clock.
	Placed, Submitted time.Time
	Age               time.Duration // since the submit, at the least
}

// UnderWay lists all of them, in no order. Each order has a place at a provider for as
// long as it lives, so that no identity needs to be asked about that has none. An order
// that this version cannot read is left out. It fails where Redis does not tell all of it.
func (b *Buyer) UnderWay(ctx context.Context) ([]UnderWay, error) {
	names, err := b.stock.Providers(ctx)
	if err != nil {
		return nil, err
	}
	names = append(names, b.accounts.names()...)
	slices.Sort(names)
	var list []UnderWay
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
			list = append(list, UnderWay{
				Order: o.Ref, Identity: o.spec.Identity, Target: o.spec.Target, Owner: o.spec.Owner,
				Provider: name, Task: o.task, State: r.State, Price: o.price,
				Placed: placed, Submitted: placed.Add(r.Unsolved), Age: time.Since(o.submitted),
			})
		}
	}
	return list, nil
}

// UnderWayHere lists those that this replica works on.
func (b *Buyer) UnderWayHere(ctx context.Context) ([]UnderWay, error) {
	list, err := b.UnderWay(ctx)
	return slices.DeleteFunc(list, func(u UnderWay) bool { return b.orders.holds(u.Order) == nil }), err
}
