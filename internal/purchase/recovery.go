package purchase

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// strandedOrder is a paid task that nobody can be asked about.
type strandedOrder struct {
	seen  time.Time
	until time.Time // it counts for so long
}

// Stranded are paid tasks under way that nobody can be asked about: no provider of
// the list has the account that they were placed at, nor their provider's name.
type Stranded struct {
	Provider string // the name under which they were placed
	Orders   int
	Until    time.Time // the last of them counts for so long
}

// list lists the stranded orders by provider.
func (rc *recovery) list() []Stranded {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	byName := map[string]Stranded{}
	for p, o := range rc.stranded {
		s := byName[p.provider]
		s.Provider, s.Orders = p.provider, s.Orders+1
		if o.until.After(s.Until) {
			s.Until = o.until
		}
		byName[p.provider] = s
	}
	list := make([]Stranded, 0, len(byName))
	for _, s := range byName {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Stranded) int { return strings.Compare(a.Provider, b.Provider) })
	return list
}

// strand leaves the orders of a name that nobody can be asked about to replicas
// that may know better, and tells of those that are new.
func (rc *recovery) strand(ctx context.Context, name string, orders []pool.Record) {
	now, grew := time.Now(), false
	refs := make([]pool.Ref, 0, len(orders))
	rc.mu.Lock()
	for _, r := range orders {
		p := place{name, r.Ref}
		_, known := rc.stranded[p]
		grew = grew || !known
		rc.stranded[p] = strandedOrder{seen: now, until: r.Until}
		refs = append(refs, r.Ref)
	}
	for p, o := range rc.stranded {
		if p.provider == name && (now.Sub(o.seen) > strandedFor || !now.Before(o.until)) {
			delete(rc.stranded, p)
		}
	}
	rc.mu.Unlock()
	if len(refs) > 0 {
		rc.letGo(ctx, refs...)
	}
	if !grew {
		return
	}
	for _, s := range rc.list() {
		if s.Provider == name {
			rc.log.Error("paid tasks cannot be collected: no provider of the file has the account that they were placed at; they count until then, or until it is listed again",
				"provider", name, "orders", s.Orders, "until", s.Until.UTC().Truncate(time.Second))
		}
	}
}
