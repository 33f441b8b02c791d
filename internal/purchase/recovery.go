package purchase

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"poold/internal/pool"
)

const (
	// orphanedFor is how long a place must have been without an order before it
	// is given up. A place is reserved before its order is created, within
	// stockTime.
	orphanedFor = 15 * time.Second
	// mostErrors is how many identities are tried in vain at one provider before
	// the search is left for the next time.
	mostErrors = 3
	// strandedFor is how long an order that nobody could be asked about is told without
	// being found again: by then another replica sees to it.
	strandedFor = 2 * pool.Lease
)

// place is one order's place at a provider.
type place struct {
	provider string
	order    pool.Ref
}

// recovery finds the orders of replicas that are gone, and the places that those left
// behind. It is safe for concurrent use.
type recovery struct {
	*base
	accounts *accounts
	placer   *placer
	orders   *orders
	lives    *lives

	mu       sync.Mutex
	orphans  map[place]time.Time     // places without an order, since when
	stranded map[place]strandedOrder // orders that nobody can ask about
}

func newRecovery(b *base, as *accounts, p *placer, ords *orders, ls *lives) *recovery {
	return &recovery{
		base: b, accounts: as, placer: p, orders: ords, lives: ls,
		orphans: map[place]time.Time{}, stranded: map[place]strandedOrder{},
	}
}

// adopt takes over the orders whose replicas have not renewed their leases, under
// whatever name of a provider they were placed, and returns those that are to be
// collected. What was not submitted is taken back; what may have been is noted as
// unknown; where nobody can be asked that is told. Orders that it has adopted come
// also with an error: Redis did not answer for others.
func (rc *recovery) adopt(ctx context.Context) (adopted []*Order, err error) {
	listed := rc.accounts.names()
	var errs []error
	adoptAt := func(name string) {
		found, err := rc.adoptAt(ctx, name)
		adopted = append(adopted, found...)
		errs = append(errs, err)
	}
	for _, name := range listed {
		adoptAt(name)
	}
	names, err := rc.stock.Providers(ctx)
	errs = append(errs, err)
	for _, name := range names {
		if !slices.Contains(listed, name) {
			adoptAt(name)
		}
	}
	return adopted, errors.Join(errs...)
}

// adoptAt adopts the orders that were placed under one name. What is wrong with one identity is no
// reason to leave the others, but a Redis that is away is not asked for all.
func (rc *recovery) adoptAt(ctx context.Context, name string) (adopted []*Order, err error) {
	refs, err := rc.stock.Holders(ctx, name)
	if err != nil {
		return nil, err
	}
	var missing []pool.Ref
	var stranded []pool.Record
	var errs []error
	for id, orders := range rc.orders.foreign(refs) {
		records, gone, err := rc.stock.Adopt(ctx, id, orders)
		for _, r := range records {
			o, askable := rc.takeOver(ctx, name, r)
			if o != nil {
				adopted = append(adopted, o)
			} else if !askable {
				stranded = append(stranded, r)
			}
		}
		missing = append(missing, gone...)
		if err != nil {
			if errs = append(errs, err); len(errs) == mostErrors {
				break
			}
		}
	}
	rc.strand(ctx, name, stranded)
	if len(errs) == mostErrors {
		return adopted, errors.Join(errs...)
	}
	return adopted, errors.Join(append(errs, rc.sweep(ctx, name, missing))...)
}

// takeOver decides what becomes of an adopted order that was placed under a name;
// nil where there is nothing to be collected, or nobody can be asked about it.
func (rc *recovery) takeOver(ctx context.Context, name string, r pool.Record) (o *Order, askable bool) {
	o, err := readOrder(r)
	if err != nil {
		rc.log.Error("an order was found that this version cannot read", "provider", name, "err", err)
		return nil, true
	}
	o.provider = name
	log := rc.log.With("target", o.spec.Target, "provider", name)
	switch e := endOf(r.State, abandoned); e.script {
	case remove:
		log.Info("an order was found that its replica had not submitted; it is taken back")
		// Nobody here knows in which budgets it stands.
		_ = rc.placer.remove(ctx, name, r.Ref, []pool.Budget{pool.Overall, pool.OfGuests}) // else somebody finds it again
		return nil, true
	case keep:
		log.Warn("an order was found whose replica may have submitted it; it counts as bought until its time is over")
		_ = withTimeout(ctx, func(ctx context.Context) error {
			_, err := rc.orders.unknown(ctx, name, r.Ref, o.timeout)
			return err
		})
		return nil, true
	case leave:
		return nil, true
	}
	if o.account = rc.accounts.askable(name, o.accountID); o.account == nil {
		return nil, false
	}
	log.Info("an order was adopted from a replica that is gone", "task", r.Task)
	o.fallback = rc.accounts.terms(o.account).callbacks.fallback(o.timeout, o.spec.Lifetime-o.spec.Margin)
	o.slot = rc.accounts.take(o.account)
	rc.lives.set(r.Identity, o.spec.Lifetime)
	rc.mu.Lock()
	delete(rc.stranded, place{name, r.Ref})
	rc.mu.Unlock()
	return o, true
}

// abandon leaves an order that nobody can collect here to other replicas.
func (rc *recovery) abandon(ctx context.Context, o *Order) {
	defer o.slot.Free()
	rc.letGo(ctx, o.Ref)
}

// sweep gives up those places at a provider whose orders have been missing for a
// while: a replica ended the order and died before it could give the place back.
func (rc *recovery) sweep(ctx context.Context, provider string, missing []pool.Ref) error {
	now := time.Now()
	var due []pool.Ref
	rc.mu.Lock()
	for p := range rc.orphans {
		if p.provider == provider && !slices.Contains(missing, p.order) {
			delete(rc.orphans, p)
		}
	}
	for _, ref := range missing {
		since, known := rc.orphans[place{provider, ref}]
		if !known {
			rc.orphans[place{provider, ref}] = now
		} else if now.Sub(since) >= orphanedFor {
			due = append(due, ref)
		}
	}
	rc.mu.Unlock()
	for _, ref := range due {
		if err := rc.stock.Release(ctx, provider, ref); err != nil {
			return err
		}
	}
	return nil
}
