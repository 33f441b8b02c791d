package refill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// gather is how long a decision waits after a change, so that several changes cause only one decision.
	gather = 20 * time.Millisecond
	// askEvery is the mean pause between two requests to Redis for due identities. While Redis does not answer, the mean
	// is awayEvery. A pause differs from the mean by at most half.
	askEvery, awayEvery = 500 * time.Millisecond, 2 * time.Second
	// mostDue is the maximum number of identities that one request returns.
	mostDue = 100
	// addEvery is how often a replica adds its targets to the key due, if they are missing there. Redis may have lost its
	// data, or a replica with another file may have removed the targets.
	addEvery = 30 * time.Second
	// guestsEvery is how often a replica decides about its guests, because no other replica can.
	guestsEvery = 2 * time.Second
	// leastRecheck and mostRecheck limit the time between two decisions about a target without a change.
	leastRecheck, mostRecheck = time.Second, 30 * time.Second
	// leadsToWait is the number of lead times that must be known before poold relies on them: only then does the first
	// poll wait for the shortest one, and may a provider without tokens count as hanging.
	leadsToWait = 8
	// mostDecisions and mostOrders limit the goroutines of a replica.
	mostDecisions, mostOrders = 64, 8192
)

// Orderer carries orders; *purchase.Buyer implements it.
type Orderer interface {
	// Buy carries one order from its placing to its end, and returns at the end. It calls tried once, as soon as it is
	// known whether the order was placed, with the identity that may place the next order at the account, or an error.
	Buy(ctx context.Context, s purchase.Spec, tried func(next captcha.ID, err error))
	// Pace returns how long orders at the first provider wait before the first poll and between polls.
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
}

// Manager decides what to buy for the targets of the configuration file. It is safe for concurrent use.
type Manager struct {
	// Refused is called when the state of a target becomes Refused, or OK afterwards, with the reason. It must not block,
	// and is set before Run.
	Refused func(target, reason string, refused bool)

	pool  *pool.Pool
	buyer Orderer
	log   *slog.Logger
	pass  atomic.Int64 // when the loop of Run began its last pass, in Unix ns

	mu            sync.Mutex
	set           *targets.Set
	subjects      map[captcha.ID]*subject
	changed       []captcha.ID  // to be decided soon
	woken         chan struct{} // there are changed identities; capacity 1
	added, guests time.Time     // when the loop last made all targets due, and saw to all guests

	decisions, orders errgroup.Group
}

// subject is an identity about which this replica can decide.
type subject struct {
	// The Manager's mu guards these fields.
	target  *targets.Target // nil = a guest
	spec    purchase.Spec   // what each order has
	users   int             // callers of a guest
	queued  bool            // it is in Manager.changed
	running bool            // a decision runs
	again   bool            // it changed meanwhile
	retry   bool            // the cause of failing orders may have ended

	reported string // the state that was logged last

	// Only the running decision uses the demand.
	demand
}

// New returns a Manager without targets.
func New(p *pool.Pool, b Orderer, log *slog.Logger) *Manager {
	m := &Manager{pool: p, buyer: b, log: log, subjects: map[captcha.ID]*subject{}, woken: make(chan struct{}, 1),
		Refused: func(string, string, bool) {}}
	m.decisions.SetLimit(mostDecisions)
	m.orders.SetLimit(mostOrders)
	return m
}

// Apply replaces the targets. A target whose definition is the same keeps its learned state. After a change of a
// definition, of the providers or of a shared budget, the decision comes at once, and a failing target tries an order
// at once. The first Set must be applied before Run.
func (m *Manager) Apply(set *targets.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, old := m.set == nil, m.subjects
	others := !first && (m.set.Budget != set.Budget || !maps.Equal(m.set.Owners, set.Owners) ||
		!reflect.DeepEqual(m.set.Providers, set.Providers))
	m.set, m.subjects = set, map[captcha.ID]*subject{}
	for i := range set.Targets {
		t := &set.Targets[i]
		s := old[t.ID]
		changed := s == nil || !reflect.DeepEqual(definition(s.target), definition(t))
		if changed {
			s = &subject{reported: OK, demand: demand{want: t.Depth}}
			if was := old[t.ID]; was != nil && was.target != nil {
				s.reported, s.avoided = was.reported, was.avoided
			}
			if t.Refill == targets.RefillAdaptive {
				s.want = t.Min
			}
		}
		s.target, s.spec = t, Spec(t, set)
		m.subjects[t.ID] = s
		if !first && (changed || others) { // at a start all replicas share the work
			s.retry = true
			m.queueLocked(t.ID, s)
		}
	}
	for id, s := range old {
		switch {
		case s.target == nil:
			m.subjects[id] = s
		case m.subjects[id] == nil && s.reported != OK:
			m.log.Info("the state of a target has changed", "target", s.target.Name, "state", OK, "reason", "the file changed")
			m.Refused(s.target.Name, "The file changed target "+s.target.Name+", which a service refused: it buys again.", false)
		}
	}
}

// definition is the part of a target on which its learned state and its orders depend.
func definition(t *targets.Target) targets.Target {
	d := *t
	d.Owner, d.OnEmpty, d.Rate = "", "", targets.Rate{}
	return d
}

// Guest makes this replica place orders for a guest, one for each ticket, until release is called.
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

// Changed notes that a decision about an identity is due, because a script of this replica changed something, or
// because its turn in a queue has come. It does not block. It ignores an identity that this replica does not know.
func (m *Manager) Changed(id captcha.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.subjects[id]; s != nil {
		m.queueLocked(id, s)
	}
}

func (m *Manager) queueLocked(id captcha.ID, s *subject) {
	if s.queued {
		return
	}
	s.queued = true
	m.changed = append(m.changed, id)
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// LastPass returns when the loop of Run began its last pass, or a time in 1970 before the first pass. A pass takes a
// few seconds at most, even without Redis; if it takes longer, the process hangs. LastPass does not block.
func (m *Manager) LastPass() time.Time { return time.Unix(0, m.pass.Load()) }

// Run makes decisions until ctx ends. Then it waits until the Orderer has ended the orders or left them to other
// replicas, and saves the learned states.
func (m *Manager) Run(ctx context.Context) error {
	ask := time.NewTimer(0)
	defer ask.Stop()
	for ctx.Err() == nil {
		m.pass.Store(time.Now().UnixNano())
		var ids []captcha.ID
		select {
		case <-ctx.Done():
		case <-m.woken:
			_ = backoff.Sleep(ctx, gather)
			m.mu.Lock()
			ids, m.changed = m.changed, nil
			m.mu.Unlock()
		case <-ask.C:
			var pause time.Duration
			ids, pause = m.due(ctx)
			ask.Reset(pause)
		}
		for _, id := range ids {
			m.dispatch(ctx, id)
		}
	}
	_ = m.decisions.Wait()
	_ = m.orders.Wait()
	m.saveAll(ctx)
	return nil
}

// due returns the identities whose decision is due, and the pause until the next question. Every addEvery it makes
// targets due that are missing in Redis, and every guestsEvery it makes its guests due.
func (m *Manager) due(ctx context.Context) (ids []captcha.ID, pause time.Duration) {
	now, adds := time.Now(), []captcha.ID{}
	m.mu.Lock()
	add, guests := now.Sub(m.added) >= addEvery, now.Sub(m.guests) >= guestsEvery
	for id, s := range m.subjects {
		if s.target == nil && guests {
			m.queueLocked(id, s)
		} else if s.target != nil && add && s.target.Halted() == "" {
			adds = append(adds, id)
		}
	}
	if guests {
		m.guests = now
	}
	if add {
		m.added = now
	}
	m.mu.Unlock()
	err := m.pool.SetDue(ctx, adds)
	if err == nil {
		ids, err = m.pool.Due(ctx, mostDue)
	}
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.added = time.Time{} // Redis may have lost its data
		return nil, backoff.Around(awayEvery, 0.5)
	}
	if len(ids) == mostDue {
		return ids, 0
	}
	return ids, backoff.Around(askEvery, 0.5)
}

// dispatch begins a decision about an identity. If such a decision runs already, another one follows it.
func (m *Manager) dispatch(ctx context.Context, id captcha.ID) {
	d := &decision{m: m, id: id}
	m.mu.Lock()
	if s := m.subjects[id]; s != nil {
		s.queued, s.again = false, s.running
		if s.running {
			m.mu.Unlock()
			return
		}
		s.running = true
		d.subject, d.target, d.spec, d.retry, s.retry = s, s.target, s.spec, s.retry, false
	}
	m.mu.Unlock()
	m.decisions.Go(func() error {
		err := panics.Contain(m.log, "panic in a decision", func() { d.run(ctx) })
		m.mu.Lock()
		defer m.mu.Unlock()
		if s := d.subject; s != nil {
			s.running = false
			if s.again && err == nil {
				m.queueLocked(id, s)
			}
		}
		return nil
	})
}

// decision is one decision about an identity. It uses the definition that was valid when it began.
type decision struct {
	m       *Manager
	id      captcha.ID
	subject *subject // nil = this replica does not know the identity
	target  *targets.Target
	spec    purchase.Spec
	retry   bool
	surplus int // tokens and orders, less the callers that wait
	placed  int // orders
}

func (d *decision) run(ctx context.Context) {
	var err error
	switch {
	case d.subject == nil || d.target != nil && d.target.Halted() != "":
		err = d.m.pool.Disown(ctx, d.id)
	case d.target == nil: // one order for each caller that has none; the Orderer answers the callers after a refusal
		var c pool.Counts
		c, err = d.m.pool.Decide(ctx, pool.Query{ID: d.id, Margin: d.spec.Margin, Recheck: mostRecheck})
		if err == nil {
			d.spec.Avoid = c.Brake.Avoid
			err = d.place(ctx, c.Waiting-c.Orders, d.spec, 0) // place knows the tokens
		}
	default:
		err = d.ofTarget(ctx)
	}
	if err != nil && ctx.Err() == nil {
		d.m.log.Debug("no decision", "target", d.spec.Target, "identity", d.id, "err", err)
	}
}

// ofTarget lets the policy decide, places the orders, and stores the result for all replicas.
func (d *decision) ofTarget(ctx context.Context) error {
	if d.retry {
		if err := d.m.pool.Retry(ctx, string(d.id), ""); err != nil {
			return err
		}
	}
	at := time.Now()
	firstPoll, interval := d.m.buyer.Pace(d.spec.Identity.Type)
	p := Params(d.target, firstPoll, interval)
	learned := d.subject.learned
	if learned == nil {
		learned = policy.NewLearned(p)
	}
	lead := learned.Lead(p, at)
	c, err := d.m.pool.Decide(ctx, pool.Query{
		ID: d.id, Margin: d.spec.Margin, Lead: lead, Want: d.subject.want,
		Recheck: min(d.subject.next, mostRecheck-backoff.UpTo(mostRecheck/6)), // spreads targets that began together
	})
	if err == nil {
		err = d.recall(ctx, at, p, &c)
	}
	if err != nil {
		return err
	}
	counts := counted(&c, lead)
	d.subject.unsaved = d.subject.learned.Learn(p, counts, at) || d.subject.unsaved
	if (d.subject.learned.Lead(p, at) - lead).Abs() > lead/10 {
		d.m.Changed(d.id) // the counts are read again with the new lead time, which the orders need too
		return nil
	}
	wants := policy.Decide(p, d.subject.learned, counts, at)
	asked := d.subject.want
	d.subject.want, d.subject.next = wants.Want, wants.Next
	if c.Brake.On() {
		wants.Order = min(wants.Order, 1)
		if wait := c.Brake.Next.Sub(c.At); wait > 0 {
			wants.Order, wants.Next = 0, wait
		}
	}
	d.noteAvoided(&c)
	d.surplus = c.Fresh + c.Orders - c.Waiting
	spec, step := d.specOf(&c, wants.Want, lead)
	refused := d.place(ctx, wants.Order, spec, step)
	if wants.Order > 0 {
		d.subject.learned.Ordered(p, wants.Order, d.placed, time.Now())
	}
	if refused != nil && (errors.Is(refused, pool.ErrDown) || ctx.Err() != nil) {
		return refused
	}
	if err := d.subject.save(ctx, d.m, d.id, saveEvery); err != nil {
		return err
	}
	next, note := d.nextDue(&wants, asked, &c, refused), d.note(ctx, &wants, &c, refused)
	if next < 0 && note == "" {
		return nil
	}
	return d.m.pool.Decided(ctx, d.id, next, note)
}

// noteAvoided logs that the identity's orders avoid one more provider.
func (d *decision) noteAvoided(c *pool.Counts) {
	if now := c.Brake.Avoid; len(now) > len(d.subject.avoided) && d.target.ProvidersPolicy != targets.ProvidersOrdered {
		d.m.log.Warn("orders of a target avoid a provider for ten minutes",
			"target", d.spec.Target, "provider", strings.Join(now, ", "), "reason", c.Brake.Reason)
	}
	d.subject.avoided = c.Brake.Avoid
}

// specOf returns what the orders of a decision have in common, and by how much the depth grows from one to the next. It
// grows for an adaptive target, so that an order that another replica has placed meanwhile counts.
func (d *decision) specOf(c *pool.Counts, want int, lead time.Duration) (spec purchase.Spec, step int) {
	spec = d.spec
	spec.Avoid, spec.Probe = c.Brake.Avoid, c.Brake.On()
	if len(c.Leads) >= leadsToWait {
		leads := slices.Sorted(slices.Values(c.Leads))
		spec.Shortest, spec.Usual = leads[0], leads[len(leads)/2]
	}
	if spec.Depth, spec.Horizon = want, spec.Margin+lead; d.target.Refill == targets.RefillAdaptive {
		spec.Depth, spec.Horizon, step = d.surplus+1, spec.Margin, 1
	}
	return spec, step
}

// nextDue returns the time until the next decision. It returns -1 if the time that the script decide has set is right.
// The argument asked is the number of tokens that the script was told to expect.
func (d *decision) nextDue(wants *policy.Decision, asked int, c *pool.Counts, err error) time.Duration {
	next := wants.Next
	var refused *pool.NotPlacedError
	switch {
	case errors.As(err, &refused):
		if refused.Reason != pool.ReasonBudget || refused.Scope != string(d.id) {
			// If the script place has put the identity into a queue, the next decision is due in 30 s, or at its turn. If
			// there are enough tokens now, or a brake or a pause of the identity has begun, it is due in 2 s.
			return -1
		}
		next = refused.After
	case err != nil:
		next = mostRecheck // no provider: a reload decides at once
	case wants.Order > 0:
		return -1 // the end of an order decides again
	}
	next = max(leastRecheck, min(next, mostRecheck))
	missing := asked+c.Waiting > c.Outliving+c.Orders // the script expects orders soon
	if next < c.Due || missing && next > c.Due+gather {
		return next
	}
	return -1
}

// place places up to n orders one after the other, until one is refused or the definition changes. The depth grows by
// `step` with each order. Each order runs in a separate goroutine.
func (d *decision) place(ctx context.Context, n int, s purchase.Spec, step int) error {
	m := d.m
	for ; n > 0; n-- {
		m.mu.Lock()
		known := m.subjects[d.id] == d.subject
		if known {
			s.Budgets = d.subject.spec.Budgets // a reload may have changed a shared budget
		}
		m.mu.Unlock()
		if !known {
			return nil
		}
		if d.subject.learned != nil {
			s.Urgent = d.surplus < 0
		}
		placed := make(chan error, 1)
		began := m.orders.TryGo(func() error {
			m.buyer.Buy(ctx, s, func(next captcha.ID, err error) {
				if next != "" {
					m.Changed(next)
				}
				placed <- err
			})
			return nil
		})
		if !began {
			return fmt.Errorf("%d orders are in flight at this replica", mostOrders)
		}
		if err := <-placed; err != nil {
			return err
		}
		d.surplus++
		d.placed++
		s.Depth += step
	}
	return nil
}
