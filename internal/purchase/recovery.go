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
	// orphanedFor is how long a permit must be without an order before the permit is released. An
	// order is created up to the time stockTime after its permit is acquired.
	orphanedFor = 15 * time.Second
	// maxErrors limits the number of identities with errors in one search at a provider. After this
	// number, the search stops, and the next search tries again.
	maxErrors = 3
	// strandedFor is how long a stranded order is reported after a search last found it. If no search
	// finds the order for this long, another replica has adopted the order.
	strandedFor = 2 * pool.Lease
)

// A permit belongs to one order at one provider.
type permit struct {
	provider string
	order    pool.Ref
}

// recovery finds orders of dead replicas, and also permits that have no order. It is safe for
// concurrent use.
type recovery struct {
	*base
	accounts  *accounts
	placer    *placer
	orders    *orders
	lifetimes *lifetimes

	mu       sync.Mutex
	orphans  map[permit]time.Time     // for each permit without an order: when a search first found it
	stranded map[permit]strandedOrder // orders whose account is not configured
}

func newRecovery(b *base, as *accounts, p *placer, ords *orders, ls *lifetimes) *recovery {
	return &recovery{
		base: b, accounts: as, placer: p, orders: ords, lifetimes: ls,
		orphans: map[permit]time.Time{}, stranded: map[permit]strandedOrder{},
	}
}

// adopt takes over the orders with expired leases, at every provider with permits. It
// returns the orders that must be collected. It removes orders that were not submitted, keeps
// orders with an unknown outcome, and reports orders whose account is not configured. Even with an
// error, adopt returns the orders that it adopted.
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

// adoptAt adopts the orders under one provider name. After an error it continues with the other
// identities, but it stops after maxErrors errors.
func (rc *recovery) adoptAt(ctx context.Context, name string) (adopted []*Order, err error) {
	refs, err := rc.stock.Holders(ctx, name)
	if err != nil {
		return nil, err
	}
	var missing []pool.Ref
	var stranded []pool.Record
	var errs []error
	for id, orders := range rc.orders.foreignOrders(refs) {
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
			if errs = append(errs, err); len(errs) == maxErrors {
				break
			}
		}
	}
	rc.addStranded(ctx, name, stranded)
	if len(errs) == maxErrors {
		return adopted, errors.Join(errs...)
	}
	return adopted, errors.Join(append(errs, rc.releaseOrphans(ctx, name, missing))...)
}

// takeOver handles an adopted order according to the order's state. It returns the order if this
// replica must collect it. The result askable is false if no configured account can poll the order's
// task.
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
		log.Info("removing an order that its replica had not submitted")
		// The journal does not record in which shared budgets the order has a reservation, so the
		// reservations in all shared budgets are removed. After an error, the next search finds the
		// order again.
		_ = rc.placer.remove(ctx, name, r.Ref, []pool.Budget{pool.Overall, pool.OfGuests})
		return nil, true
	case keep:
		log.Warn("the replica of an order may have submitted it before it died: the order counts as bought until it expires")
		_ = withTimeout(ctx, func(ctx context.Context) error {
			_, err := rc.orders.storeUnknown(ctx, name, r.Ref, o.timeout)
			return err
		})
		return nil, true
	case leave:
		return nil, true
	}
	if o.account = rc.accounts.accountOf(name, o.accountID); o.account == nil {
		return nil, false
	}
	log.Info("adopted an order of a dead replica", "task", r.Task)
	o.fallback = rc.accounts.termsOf(o.account).callbacks.fallbackTime(o.timeout, o.spec.Lifetime-o.spec.Margin)
	o.slot = rc.accounts.take(o.account)
	rc.lifetimes.setLife(r.Identity, o.spec.Lifetime)
	rc.mu.Lock()
	delete(rc.stranded, permit{name, r.Ref})
	rc.mu.Unlock()
	return o, true
}

// abandon releases an adopted order that this replica cannot run, so that other replicas can adopt
// it.
func (rc *recovery) abandon(ctx context.Context, o *Order) {
	defer o.slot.Free()
	rc.releaseLeases(ctx, o.Ref)
}

// releaseOrphans releases a provider's permits whose orders have been missing for orphanedFor. Such
// a permit is left behind if a replica ends an order and dies before it releases the permit.
func (rc *recovery) releaseOrphans(ctx context.Context, provider string, missing []pool.Ref) error {
	now := time.Now()
	var due []pool.Ref
	rc.mu.Lock()
	for p := range rc.orphans {
		if p.provider == provider && !slices.Contains(missing, p.order) {
			delete(rc.orphans, p)
		}
	}
	for _, ref := range missing {
		since, known := rc.orphans[permit{provider, ref}]
		if !known {
			rc.orphans[permit{provider, ref}] = now
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

// strandedOrder is a paid task whose account is not configured.
type strandedOrder struct {
	seen  time.Time
	until time.Time // when the order expires
}

// Stranded describes paid tasks in flight that cannot be polled, because no configured provider has
// the account or the provider name of the tasks.
type Stranded struct {
	Provider string // name of the provider when the orders were placed
	Orders   int
	Until    time.Time // when the last of these orders expires
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

// addStranded records the stranded orders of a provider name. It ends this replica's leases on these
// orders, because another replica may have the account in its configuration. It logs when it finds new
// stranded orders.
func (rc *recovery) addStranded(ctx context.Context, name string, orders []pool.Record) {
	now, grew := time.Now(), false
	refs := make([]pool.Ref, 0, len(orders))
	rc.mu.Lock()
	for _, r := range orders {
		p := permit{name, r.Ref}
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
		rc.releaseLeases(ctx, refs...)
	}
	if !grew {
		return
	}
	for _, s := range rc.list() {
		if s.Provider == name {
			rc.log.Error("paid tasks cannot be collected: list the account that they were placed at; until they expire, they count as in flight",
				"provider", name, "orders", s.Orders, "until", s.Until.UTC().Truncate(time.Second))
		}
	}
}
