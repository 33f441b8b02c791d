package refill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/next/purchase"
	"poold/internal/panics"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// gather is how long a change waits for others, which make one decision together.
	gather = 20 * time.Millisecond
	// askEvery is the pause between two questions for what is due, give or take a half.
	askEvery = 500 * time.Millisecond
	// mostDue is the number of identities that one question returns.
	mostDue = 100
	// addEvery is how often a replica makes its targets due that have no time: Redis has lost its data, or a
	// replica with another file has removed them.
	addEvery = 30 * time.Second
	// guestsEvery is how often a replica decides about its guests, because no other replica can.
	guestsEvery = 2 * time.Second
	// leastLook and mostLook limit the time between two decisions about a target without a change.
	leastLook, mostLook = time.Second, 30 * time.Second
	// stepTime limits the calls of Redis in a decision, apart from orders.
	stepTime = 3 * time.Second
	// mostDecisions and mostOrders limit the goroutines of a replica.
	mostDecisions, mostOrders = 64, 8192
)

// away paces the questions while Redis does not answer.
var away = backoff.Doubling{First: askEvery, Most: 2 * time.Second}

// Buyer carries orders; *purchase.Buyer implements it.
type Buyer interface {
	// Buy carries one order from its placing to its end, and returns at the end. It calls placed once, with the
	// identity whose turn it is next at the account.
	Buy(ctx context.Context, s purchase.Spec, placed func(next captcha.ID, err error))
	// Pace returns the poll times of the provider that probably gets the next order.
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
}

// Manager decides for the targets of a file. It is safe for concurrent use.
type Manager struct {
	pool  *pool.Pool
	buyer Buyer
	log   *slog.Logger
	turn  atomic.Int64 // when the loop that asks for what is due began its last turn, in Unix ns

	mu       sync.Mutex
	set      *targets.Set
	subjects map[captcha.ID]*subject
	changed  []captcha.ID  // to be decided soon
	woken    chan struct{} // there are changed identities; capacity 1

	decisions, orders errgroup.Group
}

// subject is an identity about which this replica can decide.
type subject struct {
	// The Manager's mu guards these.
	target  *targets.Target // nil = a guest
	spec    purchase.Spec   // what each order has
	users   int             // callers of a guest
	marked  bool            // it is in Manager.changed
	running bool            // a decision runs
	again   bool            // it changed while a decision ran
	failing bool            // the last decision found a brake

	// The running decision owns these.
	demand
	reported string // the state that was logged last
}

// New returns a Manager without targets.
func New(p *pool.Pool, b Buyer, log *slog.Logger) *Manager {
	m := &Manager{pool: p, buyer: b, log: log, subjects: map[captcha.ID]*subject{}, woken: make(chan struct{}, 1)}
	m.decisions.SetLimit(mostDecisions)
	m.orders.SetLimit(mostOrders)
	return m
}

// Apply replaces the targets. A target whose definition is the same keeps what it has learned. After a change of
// a definition, of the providers or of the overall budget, the decision comes at once, and an order of a failing
// target is tried at once. An error means that Redis did not answer; the targets are replaced all the same, and the
// loop of Run makes up for it.
func (m *Manager) Apply(ctx context.Context, set *targets.Set) error {
	m.mu.Lock()
	first := m.set == nil
	others := !first && (m.set.Budget != set.Budget || !reflect.DeepEqual(m.set.Providers, set.Providers))
	old := m.subjects
	m.set, m.subjects = set, map[captcha.ID]*subject{}
	var failing, gone []captcha.ID
	for i := range set.Targets {
		t := &set.Targets[i]
		s := old[t.ID]
		changed := s == nil || !reflect.DeepEqual(definition(s.target), definition(t))
		if s != nil && s.failing && (changed || others) {
			failing = append(failing, t.ID)
		}
		if changed {
			s = &subject{demand: demand{tracker: policy.NewTracker(Params(t, 0, 0), Windows(t))}, reported: OK}
		}
		s.target, s.spec = t, Spec(t, set.Budget)
		m.subjects[t.ID] = s
		if !first && (changed || others) {
			s.marked = false
			m.markLocked(t.ID, s)
		}
	}
	for id, s := range old {
		switch {
		case s.target == nil:
			m.subjects[id] = s
		case m.subjects[id] == nil:
			gone = append(gone, id)
		}
	}
	m.mu.Unlock()
	for _, id := range failing {
		if err := m.pool.Retry(ctx, id); err != nil {
			return fmt.Errorf("trying an order of a failing target: %w", err)
		}
	}
	for _, id := range gone {
		if err := m.pool.Forget(ctx, id); err != nil {
			return fmt.Errorf("forgetting removed targets: %w", err)
		}
	}
	return m.addDue(ctx)
}

// definition is the part of a target on which its learned state and its orders depend.
func definition(t *targets.Target) targets.Target {
	d := *t
	d.Line, d.Owner, d.OnEmpty, d.Rate = 0, "", "", targets.Rate{}
	return d
}

// addDue makes the targets due that buy and have no time.
func (m *Manager) addDue(ctx context.Context) error {
	var ids []captcha.ID
	m.mu.Lock()
	for id, s := range m.subjects {
		if s.target != nil && s.target.Halted() == "" {
			ids = append(ids, id)
		}
	}
	m.mu.Unlock()
	if err := m.pool.SetDue(ctx, ids); err != nil {
		return fmt.Errorf("making targets due: %w", err)
	}
	return nil
}

// Spec returns what each order of a target has, given the budget of all orders. Only a budget with a limit is
// counted.
func Spec(t *targets.Target, overall targets.Budget) purchase.Spec {
	s := purchase.Spec{
		Target: t.Name, Owner: t.Owner, Identity: t.Identity, ID: t.ID, Margin: t.Margin, Lifetime: t.Lifetime,
		SimulatedOnly: t.SimulatedOnly, Policy: string(t.ProvidersPolicy), MissCost: t.MaxWaste,
	}
	if b := t.Budget; b != (targets.Budget{}) {
		s.Budgets = append(s.Budgets, pool.Budget{Scope: string(t.ID), PerHour: b.PerHour, PerDay: b.PerDay})
	}
	if overall != (targets.Budget{}) {
		s.Budgets = append(s.Budgets, pool.Budget{Scope: pool.ScopeAll, PerHour: overall.PerHour, PerDay: overall.PerDay})
	}
	return s
}

// Guest lets this replica decide for a guest while a caller waits: one order for each ticket. The caller calls
// release when it waits no longer.
func (m *Manager) Guest(spec purchase.Spec) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subjects[spec.ID]
	if s == nil {
		s = &subject{}
		m.subjects[spec.ID] = s
	}
	s.spec = spec
	s.users++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(m.subjects, spec.ID)
		}
	})
}

// Changed says that a decision about an identity is due: a script of this replica changed something, or its turn has
// come. It does not block. An identity that this replica does not know is left to the others.
func (m *Manager) Changed(id captcha.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.subjects[id]; s != nil {
		m.markLocked(id, s)
	}
}

func (m *Manager) markLocked(id captcha.ID, s *subject) {
	if s.marked {
		return
	}
	s.marked = true
	m.changed = append(m.changed, id)
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// LastTurn returns when the loop that asks for what is due began its last turn; zero before the first one. It turns
// every few seconds, also without Redis. If it does not, the process hangs. LastTurn does not block.
func (m *Manager) LastTurn() time.Time {
	if ns := m.turn.Load(); ns > 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Run decides until ctx ends. Then it waits for the orders, which the Buyer ends or leaves to others, and saves
// what was learned.
func (m *Manager) Run(ctx context.Context) error {
	asked := make(chan []captcha.ID)
	var asking sync.WaitGroup
	asking.Go(func() { m.ask(ctx, asked) })
	for ctx.Err() == nil {
		var ids []captcha.ID
		select {
		case <-ctx.Done():
		case ids = <-asked:
		case <-m.woken:
			if backoff.Sleep(ctx, gather) == nil {
				m.mu.Lock()
				ids, m.changed = m.changed, nil
				m.mu.Unlock()
			}
		}
		for _, id := range ids {
			m.dispatch(ctx, id)
		}
	}
	asking.Wait()
	_ = m.decisions.Wait()
	_ = m.orders.Wait()
	m.saveAll(ctx)
	return nil
}

// ask asks for what is due, less often while Redis does not answer.
func (m *Manager) ask(ctx context.Context, asked chan<- []captcha.ID) {
	var added, guests time.Time
	for failures := 0; ctx.Err() == nil; {
		m.turn.Store(time.Now().UnixNano())
		ids, err := m.due(ctx, &added)
		if err != nil {
			failures, added = failures+1, time.Time{} // Redis may have lost its data
			_ = away.Wait(ctx, failures)
			continue
		}
		failures = 0
		full := len(ids) == mostDue
		if time.Since(guests) >= guestsEvery {
			guests = time.Now()
			ids = append(ids, m.guests()...)
		}
		if len(ids) > 0 {
			select {
			case asked <- ids:
			case <-ctx.Done():
			}
		}
		if !full {
			_ = backoff.Sleep(ctx, backoff.Around(askEvery, 0.5))
		}
	}
}

func (m *Manager) due(ctx context.Context, added *time.Time) ([]captcha.ID, error) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if time.Since(*added) >= addEvery {
		if err := m.addDue(ctx); err != nil {
			return nil, err
		}
		*added = time.Now()
	}
	return m.pool.Due(ctx, mostDue)
}

func (m *Manager) guests() (ids []captcha.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.subjects {
		if s.target == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// dispatch begins a decision, unless one about the identity runs: then another one follows.
func (m *Manager) dispatch(ctx context.Context, id captcha.ID) {
	m.mu.Lock()
	s := m.subjects[id]
	var d decision
	if s != nil {
		s.marked = false
		if s.running {
			s.again = true
			m.mu.Unlock()
			return
		}
		s.running = true
		d = decision{m: m, subject: s, target: s.target, spec: s.spec}
	}
	m.mu.Unlock()
	m.decisions.Go(func() error {
		if s == nil {
			m.disown(ctx, id)
			return nil
		}
		err := panics.Contain(m.log, "panic in a decision", func() { d.run(ctx) })
		m.mu.Lock()
		defer m.mu.Unlock()
		s.running = false
		if s.again && err == nil {
			m.markLocked(id, s)
		}
		s.again = false
		return nil
	})
}

// disown removes an identity from what is due that this replica does not know.
func (m *Manager) disown(ctx context.Context, id captcha.ID) {
	ctx, stop := context.WithTimeout(ctx, stepTime)
	defer stop()
	if err := m.pool.Disown(ctx, id); err != nil {
		m.log.Debug("an unknown identity stays due", "identity", id, "err", err)
	}
}

// decision is one decision about an identity, by the definition that held when it began.
type decision struct {
	*subject

	m      *Manager
	target *targets.Target
	spec   purchase.Spec
}

func (d *decision) run(ctx context.Context) {
	var err error
	switch {
	case d.target == nil:
		err = d.ofGuest(ctx)
	case d.target.Halted() != "":
		limited, stop := context.WithTimeout(ctx, stepTime)
		err = d.m.pool.Forget(limited, d.spec.ID)
		stop()
	default:
		err = d.ofTarget(ctx)
	}
	if err != nil && ctx.Err() == nil {
		d.m.log.Debug("no decision", "target", d.spec.Target, "identity", d.spec.ID, "err", err)
	}
}

// ofGuest places an order for each caller that has none. The Buyer tells the callers why an order was refused.
func (d *decision) ofGuest(ctx context.Context) error {
	limited, stop := context.WithTimeout(ctx, stepTime)
	defer stop()
	c, err := d.m.pool.Decide(limited, pool.Changed, pool.Query{ID: d.spec.ID, Margin: d.spec.Margin, Period: mostLook})
	if err != nil {
		return fmt.Errorf("reading the counts: %w", err)
	}
	var refused *pool.RefusedError
	if _, err = d.place(ctx, c.Waiting-c.Fresh-c.Orders, func(int) purchase.Spec { return d.spec }); errors.As(err, &refused) {
		return nil
	}
	return err
}

// ofTarget lets the policy decide, places the orders, and tells all replicas what came of it.
func (d *decision) ofTarget(ctx context.Context) error {
	at := time.Now()
	limited, stop := context.WithTimeout(ctx, stepTime)
	defer stop()
	plan, c, missing, err := d.look(limited, at)
	if err != nil {
		return err
	}
	wants := d.tracker.Decide(at, plan, stock(&c))
	wait := c.Brake.Next.Sub(c.At)
	if c.Brake.Brakes() && wants.Order > 0 {
		if wants.Order = 1; wait > 0 {
			wants.Order, wants.Look = 0, wait
		}
	}
	d.m.mu.Lock()
	d.failing = c.Brake.Brakes()
	d.m.mu.Unlock()
	held := c.Fresh + c.Orders - c.Waiting
	placed, refused := d.place(ctx, wants.Order, func(n int) purchase.Spec {
		s := d.spec
		s.Depth, s.Horizon, s.Shortest = wants.Want, s.Margin+wants.Lead, wants.Shortest
		if d.target.Refill == targets.RefillAdaptive {
			// The depth grows by one with each order, so that an order of another replica since the look counts.
			s.Depth, s.Horizon = min(held+n+1, wants.Most), s.Margin
		}
		return s
	})
	for range placed {
		d.tracker.Placed(time.Now())
	}
	if refused != nil && (errors.Is(refused, pool.ErrDown) || ctx.Err() != nil) {
		return refused
	}
	limited, stop = context.WithTimeout(ctx, stepTime)
	defer stop()
	d.save(limited, d.m, d.spec.ID, saveEvery)
	next, note := d.next(&wants, &c, missing, refused), d.note(ctx, &wants, &c, refused)
	if next < 0 && note == "" {
		return nil
	}
	if err := d.m.pool.Decided(limited, d.spec.ID, next, note); err != nil {
		return fmt.Errorf("noting the decision: %w", err)
	}
	return nil
}

// look reads the counts with the lead time of the policy's plan. If the counts change that lead time, it reads them
// again, so that the decision and its orders have the same one. It reports whether the script found something
// missing.
func (d *decision) look(ctx context.Context, at time.Time) (plan policy.Plan, c pool.Counts, missing bool, err error) {
	d.tracker.Pace(d.m.buyer.Pace(d.spec.Identity.Type))
	plan = d.tracker.Plan(at)
	for n := 1; ; n++ {
		lead := plan.Lead
		q := pool.Query{
			ID: d.spec.ID, Margin: d.spec.Margin, Lead: lead, Want: plan.Want,
			Period: min(plan.Look, mostLook-backoff.UpTo(mostLook/6)), // targets that began together spread
		}
		if c, err = d.m.pool.Decide(ctx, pool.Changed, q); err != nil {
			return plan, c, false, fmt.Errorf("reading the counts: %w", err)
		}
		missing = q.Want+c.Waiting > c.Outliving+c.Orders
		if err = d.recall(ctx, at, d.m, d.spec, &c); err != nil {
			return plan, c, false, err
		}
		d.tracker.Learn(at, stock(&c))
		plan = d.tracker.Plan(at)
		if n == 3 || (plan.Lead-lead).Abs() <= lead/10 { // a landing between two reads may change the lead time again
			plan.Lead = lead
			return plan, c, missing, nil
		}
	}
}

// next returns when the next decision is due if that differs from what the script has set; else -1.
func (d *decision) next(wants *policy.Decision, c *pool.Counts, missing bool, err error) time.Duration {
	var refused *pool.RefusedError
	switch {
	case err == nil && wants.Order > 0:
		return -1 // soon; an end comes before
	case err == nil:
		next := max(leastLook, min(wants.Look, mostLook))
		if missing && (next-c.Due).Abs() > gather || next < c.Due {
			return next
		}
		return -1
	case !errors.As(err, &refused):
		return mostLook // there is no provider: a reload decides at once
	case refused.Reason == pool.ReasonBudget && refused.Text == string(d.spec.ID):
		return max(leastLook, min(refused.After, mostLook))
	}
	return -1 // the target has a place in wants, or another replica was faster
}

// place places orders one after the other, until one is refused or the definition changes. Each order runs in a
// goroutine of its own.
func (d *decision) place(ctx context.Context, n int, spec func(n int) purchase.Spec) (placed int, err error) {
	m := d.m
	for ; placed < n && d.holds(); placed++ {
		s, answered := spec(placed), make(chan error, 1)
		began := m.orders.TryGo(func() error {
			m.buyer.Buy(ctx, s, func(next captcha.ID, err error) {
				if next != "" {
					m.Changed(next)
				}
				answered <- err
			})
			return nil
		})
		if !began {
			return placed, fmt.Errorf("%d orders are in flight at this replica", mostOrders)
		}
		if err := <-answered; err != nil {
			return placed, err
		}
	}
	return placed, nil
}

// holds reports whether the definition of the decision is still the one of the file.
func (d *decision) holds() bool {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.m.subjects[d.spec.ID] == d.subject
}
