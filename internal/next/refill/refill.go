package refill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	// dueEvery is how often all targets are made due that have no time, in case Redis has lost its data.
	dueEvery = 30 * time.Second
	// mostDue is the number of identities that one question returns.
	mostDue = 100
	// period is the longest time between two decisions about a target.
	period = 30 * time.Second
	// mostDecisions and mostOrders limit the goroutines of a replica.
	mostDecisions, mostOrders = 64, 8192
	// saveEvery is how often a learned state that changes is saved.
	saveEvery = 10 * time.Second
	// stopLimit limits the saves at a stop.
	stopLimit = 3 * time.Second
)

// Buyer carries orders; *purchase.Buyer implements it.
type Buyer interface {
	// Buy carries one order from its placing to its end, and returns at the end. It calls placed once.
	Buy(ctx context.Context, s purchase.Spec, placed func(next captcha.ID, err error))
	// Pace returns the poll times of the provider that would get the next order.
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
}

// Manager decides for the targets of a file. It is safe for concurrent use.
type Manager struct {
	pool  *pool.Pool
	buyer Buyer
	log   *slog.Logger

	mu       sync.Mutex
	subjects map[captcha.ID]*subject
	changed  []captcha.ID  // to be decided soon
	woken    chan struct{} // there are changed identities; capacity 1

	decisions, orders errgroup.Group
}

// subject is an identity that this replica can decide.
type subject struct {
	target *targets.Target // nil = a guest
	guest  purchase.Spec
	users  int // callers of a guest

	// The Manager's mu guards these.
	marked, running, again bool

	// The running decision owns these.
	tracker *policy.Tracker
	status  string // as stored
	savedAt time.Time
}

// New returns a Manager without targets.
func New(p *pool.Pool, b Buyer, log *slog.Logger) *Manager {
	m := &Manager{pool: p, buyer: b, log: log, subjects: map[captcha.ID]*subject{}, woken: make(chan struct{}, 1)}
	m.decisions.SetLimit(mostDecisions)
	m.orders.SetLimit(mostOrders)
	return m
}

// Apply replaces the targets. A target whose definition stays keeps its learned state in memory.
func (m *Manager) Apply(ctx context.Context, set *targets.Set) error {
	next, due := map[captcha.ID]*subject{}, []captcha.ID{}
	m.mu.Lock()
	for id, s := range m.subjects {
		if s.target == nil {
			next[id] = s
		}
	}
	for i := range set.Targets {
		t := &set.Targets[i]
		s := m.subjects[t.ID]
		if s == nil || s.target == nil || !reflect.DeepEqual(definition(s.target), definition(t)) {
			s = &subject{tracker: policy.NewTracker(params(t, 0, 0), windows(t))}
			m.markLocked(t.ID, s)
		}
		s.target = t
		next[t.ID] = s
		if t.Halted() == "" {
			due = append(due, t.ID)
		}
	}
	var gone []captcha.ID
	for id := range m.subjects {
		if next[id] == nil {
			gone = append(gone, id)
		}
	}
	m.subjects = next
	m.mu.Unlock()
	var errs []error
	for _, id := range gone {
		errs = append(errs, m.pool.Forget(ctx, id))
	}
	if len(due) > 0 {
		errs = append(errs, m.pool.SetDue(ctx, due))
	}
	return errors.Join(errs...)
}

// definition is the part of a target on which its learned state and its orders depend.
func definition(t *targets.Target) targets.Target {
	d := *t
	d.Line, d.Owner, d.OnEmpty, d.Rate = 0, "", "", targets.Rate{}
	return d
}

// Guest lets this replica decide for an identity without a target while a caller waits: one order for each
// ticket. The caller calls release when it waits no longer.
func (m *Manager) Guest(spec purchase.Spec) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subjects[spec.ID]
	if s == nil {
		s = &subject{guest: spec}
		m.subjects[spec.ID] = s
	}
	s.users++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if s.users--; s.users == 0 && s.target == nil && m.subjects[spec.ID] == s {
			delete(m.subjects, spec.ID)
		}
	})
}

// Has reports whether the identity has a target.
func (m *Manager) Has(id captcha.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.subjects[id] != nil && m.subjects[id].target != nil
}

// Changed says that a decision about an identity is due: a script of this replica changed something. It does
// not block.
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

// Run decides until ctx ends. Then it waits for the orders, which Buyer ends or leaves to others, and saves
// what was learned.
func (m *Manager) Run(ctx context.Context) error {
	asked := make(chan []captcha.ID)
	var asking sync.WaitGroup
	asking.Go(func() { m.ask(ctx, asked) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case ids := <-asked:
			for _, id := range ids {
				m.dispatch(ctx, id)
			}
		case <-m.woken:
			select {
			case <-ctx.Done():
			case <-time.After(gather):
			}
			m.mu.Lock()
			ids := m.changed
			m.changed = nil
			m.mu.Unlock()
			for _, id := range ids {
				m.dispatch(ctx, id)
			}
		}
	}
	asking.Wait()
	_ = m.decisions.Wait()
	_ = m.orders.Wait()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer stop()
	for id, s := range m.subjects {
		m.save(ctx, id, s, 0)
	}
	return nil
}

// ask asks for what is due, less often while Redis does not answer.
func (m *Manager) ask(ctx context.Context, asked chan<- []captcha.ID) {
	var all time.Time // when all targets were made due
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		limited, stop := context.WithTimeout(ctx, time.Second)
		ids, err := m.pool.Due(limited, mostDue)
		if err == nil && time.Since(all) >= dueEvery {
			err = m.pool.SetDue(limited, m.targets())
			all = time.Now()
		}
		stop()
		switch pause = askEvery/2 + rand.N(askEvery); { //nolint:gosec // G404: no secret depends on the pause
		case err != nil:
			pause *= 4
			continue
		case len(ids) == mostDue:
			pause = 0
		}
		select {
		case asked <- ids:
		case <-ctx.Done():
			return
		}
	}
}

// targets lists the identities of the targets that buy.
func (m *Manager) targets() (ids []captcha.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.subjects {
		if s.target != nil && s.target.Halted() == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// dispatch begins a decision, unless one about the identity runs: then another one follows.
func (m *Manager) dispatch(ctx context.Context, id captcha.ID) {
	m.mu.Lock()
	s := m.subjects[id]
	if s != nil {
		s.marked = false
		if s.running {
			s.again = true
			m.mu.Unlock()
			return
		}
		s.running = true
	}
	m.mu.Unlock()
	m.decisions.Go(func() error {
		err := panics.Contain(m.log, "panic in a decision", func() { m.decide(ctx, id, s) })
		if s == nil {
			return nil
		}
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

// decide makes one decision, and places its orders.
func (m *Manager) decide(ctx context.Context, id captcha.ID, s *subject) {
	var err error
	switch {
	case s == nil:
		err = m.pool.Disown(ctx, id)
	case s.target == nil:
		err = m.decideGuest(ctx, s)
	case s.target.Halted() == "":
		err = m.decideTarget(ctx, s)
	}
	if err != nil && ctx.Err() == nil {
		m.log.Debug("no decision", "identity", id, "err", err)
	}
}

// decideGuest places an order for each caller that has none.
func (m *Manager) decideGuest(ctx context.Context, s *subject) error {
	c, err := m.pool.Decide(ctx, pool.Changed, pool.Query{ID: s.guest.ID, Margin: s.guest.Margin, Period: period})
	if err != nil {
		return err
	}
	err = m.place(ctx, c.Waiting-c.Fresh-c.Orders, func(int) purchase.Spec { return s.guest })
	if refused := (*pool.RefusedError)(nil); errors.As(err, &refused) {
		return nil // the Buyer has told the callers
	}
	return err
}

// decideTarget lets the policy decide, and tells all replicas what came of it.
func (m *Manager) decideTarget(ctx context.Context, s *subject) error {
	t := s.target
	at := time.Now()
	s.tracker.Pace(m.buyer.Pace(t.Identity.Type))
	plan := s.tracker.Plan(at)
	var c pool.Counts
	for range 3 { // a landing between two reads may change the lead time
		q := pool.Query{ID: t.ID, Margin: t.Margin, Lead: plan.Lead, Want: plan.Want, Period: min(plan.Look, period)}
		var err error
		if c, err = m.pool.Decide(ctx, pool.Changed, q); err != nil {
			return err
		}
		if err := m.recall(ctx, at, s, &c); err != nil {
			return err
		}
		s.tracker.Learn(at, stock(&c))
		lead := plan.Lead
		if plan = s.tracker.Plan(at); (plan.Lead - lead).Abs() <= lead/10 {
			plan.Lead = lead
			break
		}
	}
	d := s.tracker.Decide(at, plan, stock(&c))
	if wait := c.Brake.Next.Sub(c.At); c.Brake.Brakes() && d.Order > 0 {
		if d.Order = 1; wait > 0 {
			d.Order, d.Look = 0, wait
		}
	}
	next := clamp(d.Look, gather, period)
	held := c.Fresh + c.Orders - c.Waiting
	refused := m.place(ctx, d.Order, func(n int) purchase.Spec {
		spec := Spec(t)
		spec.Depth, spec.Horizon, spec.Shortest = d.Want, t.Margin+d.Lead, d.Shortest
		if t.Refill == targets.RefillAdaptive {
			// The depth grows by one with each order: an order of another replica since the decision counts.
			spec.Depth, spec.Horizon = min(held+n+1, d.Most), t.Margin
		}
		s.tracker.Placed(at)
		return spec
	})
	var why *pool.RefusedError
	if errors.As(refused, &why) && why.After > 0 {
		next = clamp(why.After, gather, period)
	}
	if next >= c.Due-gather && c.Due > 2*time.Second || d.Order > 0 && refused == nil {
		next = -1
	}
	m.save(ctx, t.ID, s, saveEvery)
	status := m.status(s, d, &c, refused)
	if next < 0 && status == "" {
		return nil
	}
	return m.pool.Decided(ctx, t.ID, next, status)
}

// place places n orders one after the other, until one is refused. Each order runs in a goroutine of its own.
func (m *Manager) place(ctx context.Context, n int, spec func(n int) purchase.Spec) error {
	for i := range n {
		var err error
		placed := make(chan struct{})
		s := spec(i)
		began := m.orders.TryGo(func() error {
			answered := sync.OnceFunc(func() { close(placed) })
			defer answered() // a panic in Buy must not stop the decision
			return panics.Contain(m.log, "panic in an order", func() {
				m.buyer.Buy(ctx, s, func(next captcha.ID, refused error) {
					if err = refused; next != "" {
						m.Changed(next)
					}
					answered()
				})
			})
		})
		if !began {
			return fmt.Errorf("%d orders are in flight at this replica", mostOrders)
		}
		if <-placed; err != nil {
			return err
		}
	}
	return nil
}

// Spec returns what each order of a target has.
func Spec(t *targets.Target) purchase.Spec {
	return purchase.Spec{
		Target: t.Name, Owner: t.Owner, Identity: t.Identity, ID: t.ID, Margin: t.Margin, Lifetime: t.Lifetime,
		Budgets:       []pool.Budget{{Scope: string(t.ID), PerHour: t.Budget.PerHour, PerDay: t.Budget.PerDay}},
		SimulatedOnly: t.SimulatedOnly, Policy: string(t.ProvidersPolicy), MissCost: t.MaxWaste,
	}
}

// learned is a saved state: the policy's, and the counts to which it belongs.
type learned struct {
	Seen  policy.Figures
	State []byte
}

// recall reads the learned state again if another replica has decided meanwhile.
func (m *Manager) recall(ctx context.Context, at time.Time, s *subject, c *pool.Counts) error {
	if c.Decider != m.pool.Replica && c.Decider != "" && !s.tracker.WantsSaved() {
		s.tracker.Resume()
	}
	if !s.tracker.WantsSaved() {
		return nil
	}
	text, err := m.pool.Learned(ctx, s.target.ID)
	if err != nil {
		return err
	}
	var l learned
	if text != nil {
		err = json.Unmarshal(text, &l)
	}
	if loaded := s.tracker.Load(at, l.State); err == nil {
		err = loaded
	}
	if err != nil {
		m.log.Warn("the learned demand is dropped, and learned again", "target", s.target.Name, "err", err)
	} else if text != nil {
		s.tracker.SetSeen(at, l.Seen)
	}
	return nil
}

// save saves the learned state if it has changed, at most once in the interval.
func (m *Manager) save(ctx context.Context, id captcha.ID, s *subject, interval time.Duration) {
	if s.target == nil {
		return
	}
	at := time.Now()
	state, err := s.tracker.Unsaved(at, interval)
	if state == nil && err == nil {
		return
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(learned{Seen: s.tracker.Seen(), State: state})
	}
	if err == nil {
		err = m.pool.SaveLearned(ctx, id, text)
	}
	if err != nil {
		m.log.Debug("the learned demand is not saved", "target", s.target.Name, "err", err)
		return
	}
	s.tracker.Saved(at)
}

// stock converts the counts for the policy.
func stock(c *pool.Counts) *policy.Stock {
	f := c.Counters
	s := &policy.Stock{
		Fresh: c.Fresh, Outliving: c.Outliving, Orders: c.Orders, Waiting: c.Waiting, Paused: c.Brake.IsPaused(),
		NextExpiry: c.NextExpiry, NextLook: c.NextLook, NextEnd: max(0, c.NextEnd), Leads: c.Leads,
		Figures: policy.Figures{
			Requests: c.Requests(), Hits: f.Hits, Waited: f.Waited, Misses: f.Missed,
			Solved: f.Solved, Failed: f.Failed, Expired: f.Expired,
		},
	}
	if s.Paused && !c.Brake.Resumes.IsZero() {
		s.Resumes = max(time.Millisecond, c.Brake.Resumes.Sub(c.At))
	}
	return s
}

func params(t *targets.Target, firstPoll, interval time.Duration) policy.Params {
	return policy.Params{
		Adaptive: t.Refill == targets.RefillAdaptive, Depth: t.Depth, Min: t.Min, HitRate: t.HitRate, MaxWaste: t.MaxWaste,
		IdleAfter: t.IdleAfter, Usable: t.Usable(), FirstPoll: firstPoll, PollInterval: interval,
	}
}

func windows(t *targets.Target) (list []policy.Warm) {
	for _, w := range t.Warm {
		list = append(list, policy.Warm{Tokens: w.Tokens, Next: w.Next})
	}
	return list
}

func clamp(d, least, most time.Duration) time.Duration { return max(least, min(d, most)) }
