package purchase

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	// renewEvery leaves room for two renewals that fail within a lease.
	renewEvery = 1500 * time.Millisecond
	// orphanedFor is how long a place must have been without an order before it
	// is given up. A place is reserved before its order is created, within
	// stockTime.
	orphanedFor = 15 * time.Second
	// mostErrors is how many identities are tried in vain at one provider before
	// the search is left for the next time.
	mostErrors = 3
)

// place is one order's place at a provider.
type place struct {
	provider string
	order    pool.Ref
}

// hold lets the desk renew the order's lease and end its waiting.
func (d *Desk) hold(o *Order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[o.Ref] = o
}

func (d *Desk) unhold(o *Order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, o.Ref)
}

// renew renews the leases of the orders that this replica works on, and ends the
// work on those that are not its own any more.
func (d *Desk) renew(ctx context.Context) {
	d.mu.Lock()
	orders := make([]pool.Ref, 0, len(d.held))
	for ref := range d.held {
		orders = append(orders, ref)
	}
	d.mu.Unlock()
	if len(orders) == 0 {
		return
	}
	lost, err := d.stock.Renew(ctx, orders)
	if err != nil {
		d.log.Debug("leases not renewed", "orders", len(orders), "err", err)
	}
	for _, ref := range lost {
		// One that is submitting becomes this replica's again with its task.
		if o := d.holds(ref); o != nil && !o.submitting.Load() {
			o.finish(Result{Outcome: Elsewhere, Err: errElsewhere})
		}
	}
}

// holds finds an order that this replica works on, nil for none.
func (d *Desk) holds(ref pool.Ref) *Order {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[ref]
}

// refused goes before the code of a parameter fault, when replicas tell each other
// how an order ended.
const refused = "refused "

// Ended is told that an order ended by a callback at some replica, and how:
// pool.Solved, or the code of its failure.
func (d *Desk) Ended(order pool.Ref, how string) {
	o := d.holds(order)
	if o == nil {
		return
	}
	if o.called {
		d.accounts.called(o.account, true)
	}
	switch code, params := strings.CutPrefix(how, refused); {
	case how == pool.Solved:
		o.finish(Result{Outcome: Solved})
	case params:
		o.finish(o.hopeless(errors.New(code)))
	default:
		o.finish(o.result(Failed, errors.New(code)))
	}
}

// adopt takes over the orders whose replicas have not renewed their leases, under
// whatever name of a provider they were placed, and returns those that are to be
// collected. What was not submitted is taken back; what may have been is noted as
// unknown; where nobody can be asked that is told. Orders that it has adopted come
// also with an error: Redis did not answer for others.
func (d *Desk) adopt(ctx context.Context) (adopted []*Order, err error) {
	listed := d.accounts.names()
	var errs []error
	adoptAt := func(name string) {
		found, err := d.adoptAt(ctx, name)
		adopted = append(adopted, found...)
		errs = append(errs, err)
	}
	for _, name := range listed {
		adoptAt(name)
	}
	names, err := d.stock.Providers(ctx)
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
func (d *Desk) adoptAt(ctx context.Context, name string) (adopted []*Order, err error) {
	refs, err := d.stock.Places(ctx, name)
	if err != nil {
		return nil, err
	}
	var missing []pool.Ref
	var stranded []pool.Record
	var errs []error
	for id, orders := range d.foreign(refs) {
		records, gone, err := d.stock.Adopt(ctx, id, orders)
		for _, r := range records {
			o, askable := d.takeOver(ctx, name, r)
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
	d.strand(ctx, name, stranded)
	if len(errs) == mostErrors {
		return adopted, errors.Join(errs...)
	}
	return adopted, errors.Join(append(errs, d.sweep(ctx, name, missing))...)
}

// foreign sorts the orders that this replica does not work on by identity.
func (d *Desk) foreign(refs []pool.Ref) map[captcha.ID][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	byIdentity := map[captcha.ID][]string{}
	for _, ref := range refs {
		if d.held[ref] == nil {
			byIdentity[ref.Identity] = append(byIdentity[ref.Identity], ref.Order)
		}
	}
	return byIdentity
}

// takeOver decides what becomes of an adopted order that was placed under a name;
// nil where there is nothing to be collected, or nobody can be asked about it.
func (d *Desk) takeOver(ctx context.Context, name string, r pool.Record) (o *Order, askable bool) {
	f, err := readFacts(r.Facts)
	if err != nil {
		d.log.Error("an order was found that this version cannot read", "provider", name, "err", err)
		return nil, true
	}
	log := d.log.With("target", f.Target, "provider", name)
	switch r.State {
	case pool.Intent:
		log.Info("an order was found that its replica had not submitted; it is taken back")
		_ = d.takeBack(ctx, name, r.Ref, true) // else somebody finds it again
		return nil, true
	case pool.Submitting:
		log.Warn("an order was found whose replica may have submitted it; it counts as bought until its time is over")
		_ = attempt(ctx, func(ctx context.Context) error {
			_, err := d.unknown(ctx, name, r.Ref, milliseconds(f.Timeout))
			return err
		})
		return nil, true
	case pool.Unknown:
		return nil, true // only a callback can do anything for it
	case pool.Bought:
	}
	a := d.accounts.askable(name, f.Account)
	if a == nil {
		return nil, false
	}
	log.Info("an order was adopted from a replica that is gone", "task", r.Task)
	callbacks, slot := d.accounts.terms(a).callbacks, d.accounts.take(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stranded, place{name, r.Ref})
	d.lives[r.Identity] = milliseconds(f.Lifetime)
	submitted := r.Placed.Add(r.Unsolved)
	return &Order{
		Ref: r.Ref, account: a, provider: name, slot: slot,
		timeout: milliseconds(f.Timeout), called: f.Called,
		fallback: callbacks.fallback(milliseconds(f.Timeout), milliseconds(f.Lifetime-f.Margin)),
		spec: Spec{
			Target: f.Target, ID: r.Identity,
			Identity: captcha.Identity{Type: f.Type, Enterprise: f.Enterprise},
			Margin:   milliseconds(f.Margin), Lifetime: milliseconds(f.Lifetime),
		},
		deadline: r.Until, task: r.Task,
		placed: r.Placed, submitted: submitted, answered: submitted, unsolved: submitted,
	}, true
}

// abandon leaves an order that nobody can collect here to other replicas.
func (d *Desk) abandon(ctx context.Context, o *Order) {
	defer o.slot.Free()
	_ = attempt(ctx, func(ctx context.Context) error { return d.stock.LetGo(ctx, []pool.Ref{o.Ref}) })
}

// sweep gives up those places at a provider whose orders have been missing for a
// while: a replica ended the order and died before it could give the place back.
func (d *Desk) sweep(ctx context.Context, provider string, missing []pool.Ref) error {
	now := time.Now()
	var due []pool.Ref
	d.mu.Lock()
	for p := range d.orphans {
		if p.provider == provider && !slices.Contains(missing, p.order) {
			delete(d.orphans, p)
		}
	}
	for _, ref := range missing {
		since, known := d.orphans[place{provider, ref}]
		if !known {
			d.orphans[place{provider, ref}] = now
		} else if now.Sub(since) >= orphanedFor {
			due = append(due, ref)
		}
	}
	d.mu.Unlock()
	for _, ref := range due {
		if err := d.stock.Release(ctx, provider, ref); err != nil {
			return err
		}
	}
	return nil
}
