package refill

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
)

const (
	// The first looks of workers that start together begin at intervals of startStep, but at most
	// startMost after the first worker.
	startStep = 500 * time.Microsecond
	startMost = time.Second
	// adoptEvery is the minimum interval between two searches for orders of dead replicas. The real
	// interval is up to a quarter longer. An order is adopted after its lease has expired, but at most
	// 8 s after its replica died.
	adoptEvery = 2 * time.Second
	// firstAdopt limits the duration of the first search. Until this search ends, the replica buys
	// nothing.
	firstAdopt = 3 * time.Second
	// settleMargin is extra time for the calls that an order's timeout does not cover.
	settleMargin = time.Minute
)

// Stock is the part of pool.Tokens and pool.Controls that refill uses.
type Stock interface {
	// LookAll looks at many identities in one exchange; see pool.Tokens.LookAll.
	LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	// LastLook takes the last look at an identity without a target.
	LastLook(ctx context.Context, id captcha.ID, margin time.Duration) error
	// Recall returns the state that Remember last stored for an identity, or nil.
	Recall(ctx context.Context, id captcha.ID) ([]byte, error)
	Remember(ctx context.Context, id captcha.ID, learned []byte) error
	// Patience returns how long a caller of an identity at this replica still waits; see
	// pool.Tokens.Patience.
	Patience(id captcha.ID) time.Duration
	// Retry lets an identity with failing orders place its next order immediately.
	Retry(ctx context.Context, id captcha.ID) (bounded bool, err error)
}

// Buyer is the part of *purchase.Buyer that refill uses.
type Buyer interface {
	Request(bid purchase.Bid, granted func(*purchase.Slot, error)) *purchase.Request
	Buy(ctx context.Context, slot *purchase.Slot, spec purchase.Spec, ended func(purchase.Result)) error
	Adopt(ctx context.Context, within time.Duration, ended func(captcha.ID, purchase.Result)) error
	Wait() error
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
}

// Manager keeps one worker per target. Manager is safe for concurrent use.
type Manager struct {
	stock    Stock
	replicas Replicas
	buyer    Buyer
	others   func(captcha.ID, purchase.Result)
	log      *slog.Logger

	looker  *looker
	workers atomic.Pointer[workers] // replaced as a whole by Run
	applies chan application        // from Apply to Run
	ended   chan struct{}           // closed when Run no longer receives from applies

	mu      sync.Mutex
	running bool
	first   *targets.Set // the set passed to Apply before Run
	// departed contains the removed identities whose tokens and orders may not have expired yet.
	departed []departure
}

// departure is an identity without a target.
type departure struct {
	id     captcha.ID
	margin time.Duration
	due    time.Time // time by which the identity's last token and order must have expired
}

// workers is the set of running workers.
type workers struct {
	providers []targets.Provider
	byID      map[captcha.ID]*worker
	byName    map[string]*worker
}

// application is a set that Apply passes to Run. Run closes done when the set is applied.
type application struct {
	set  *targets.Set
	done chan struct{}
}

// NewManager returns a manager without targets. The function others is called with the result of
// each adopted order whose identity has no target. The function others must not block.
func NewManager(stock Stock, replicas Replicas, buyer Buyer, others func(captcha.ID, purchase.Result), log *slog.Logger) *Manager {
	m := &Manager{
		stock: stock, replicas: replicas, buyer: buyer, others: others, log: log,
		looker: newLooker(stock, replicas, log), applies: make(chan application), ended: make(chan struct{}),
	}
	m.workers.Store(&workers{})
	return m
}

// Apply starts and stops workers for the targets of the set. When Apply returns, the workers of
// removed and changed targets have ended, but their orders in flight continue. Before Run, Apply only
// stores the set. After Run has ended, Apply is a no-op. When ctx ends, Apply returns early, and Run
// may still apply the set.
func (m *Manager) Apply(ctx context.Context, set *targets.Set) {
	m.mu.Lock()
	if !m.running {
		m.first = set
		m.mu.Unlock()
		return
	}
	m.mu.Unlock()
	a := application{set: set, done: make(chan struct{})}
	select {
	case m.applies <- a:
	case <-m.ended:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-a.done:
	case <-ctx.Done():
	}
}

// Wake makes the worker of an identity look soon. Wake is a no-op if the identity has no worker.
func (m *Manager) Wake(id captcha.ID) {
	if w := m.workers.Load().byID[id]; w != nil {
		m.looker.wake(w)
	}
}

// Has reports whether a worker runs for the identity.
func (m *Manager) Has(id captcha.ID) bool { return m.workers.Load().byID[id] != nil }

// Status returns the status of the named target. The result is false if there is no such target.
func (m *Manager) Status(name string) (Status, bool) {
	w := m.workers.Load().byName[name]
	if w == nil {
		return Status{}, false
	}
	return w.visibleStatus(), true
}

// Run runs the workers until ctx ends. Then Run places no more orders, leaves the orders in flight
// in the journal, and returns when all goroutines of workers and orders have ended. Run must be
// called at most once.
func (m *Manager) Run(ctx context.Context) error {
	defer close(m.ended)
	// Orders run under the ctx of Run, so that they can outlive their workers.
	buy := func(w *worker, slot *purchase.Slot, on terms) error {
		return m.buyer.Buy(ctx, slot, w.spec(on), func(r purchase.Result) { w.ended(r, m.Wake) })
	}

	// Orders of dead replicas are adopted before anything is bought.
	m.adopt(ctx, firstAdopt)
	m.looker.lastPass.Store(time.Now().UnixNano())
	var duties sync.WaitGroup
	duties.Go(func() { m.keepRecovering(ctx) })
	duties.Go(func() { m.looker.run(ctx) })
	duties.Go(func() { m.keepWatching(ctx) })

	m.mu.Lock()
	m.running = true
	first := m.first
	m.mu.Unlock()
	if first != nil {
		m.reconcile(ctx, first, buy)
	}
	for ctx.Err() == nil {
		select {
		case a := <-m.applies:
			m.reconcile(ctx, a.set, buy)
			close(a.done)
		case <-ctx.Done():
		}
	}
	duties.Wait()
	m.looker.dismiss(slices.Collect(maps.Values(m.workers.Load().byID)))
	return m.buyer.Wait()
}

// reconcile makes the workers match the set. Only Run may call it.
func (m *Manager) reconcile(ctx context.Context, set *targets.Set, buy buy) {
	old := m.workers.Load()
	providers := withoutLines(set.Providers)
	otherProviders := !slices.Equal(old.providers, providers)
	next := &workers{providers: providers, byID: map[captcha.ID]*worker{}, byName: map[string]*worker{}}
	went := maps.Clone(old.byID)
	var came []*worker
	for _, t := range set.Targets {
		owner := t.Owner
		t = definition(t)
		w := old.byID[t.ID]
		if w != nil && reflect.DeepEqual(w.target, t) {
			delete(went, t.ID)
			if otherProviders {
				m.retry(ctx, w)
				m.looker.wake(w)
			}
		} else {
			if w != nil {
				m.retry(ctx, w)
			}
			w = newWorker(ctx, t, m.stock, m.buyer, buy, m.log)
			came = append(came, w)
		}
		w.owner.Store(&owner)
		next.byID[t.ID], next.byName[t.Name] = w, w
	}
	m.looker.dismiss(slices.Collect(maps.Values(went)))
	m.workers.Store(next)
	m.recordDeparted(went, next, slices.Concat(old.providers, set.Providers))
	for i, w := range came {
		m.looker.add(w, min(time.Duration(i)*startStep, startMost))
	}
}

// retry lets a target with failing orders place its next order immediately. It is called
// after a change of the target's definition or of the providers, because the order may now succeed.
func (m *Manager) retry(ctx context.Context, w *worker) {
	if !w.status.snapshot().Failing {
		return
	}
	limited, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	if _, err := m.stock.Retry(limited, w.target.ID); err != nil {
		w.log.Debug("the next order of a failing target is not advanced", "err", err)
	}
}

// Retry lets the targets of a type whose orders fail place their next orders immediately, unless they
// buy from the first provider that is up.
func (m *Manager) Retry(t captcha.Type) {
	for _, w := range m.workers.Load().byID {
		if w.target.Identity.Type == t && w.target.ProvidersPolicy != targets.ProvidersOrdered {
			m.retry(w.ctx, w)
			m.Wake(w.target.ID)
		}
	}
}

// definition returns a target without the fields that its worker ignores, so that a change of the
// line number or the owner does not replace the worker.
func definition(t targets.Target) targets.Target {
	t.Line, t.Owner, t.OnEmpty, t.Rate = 0, "", "", targets.Rate{}
	return t
}

// withoutLines returns the providers with only the fields that can decide whether an order fails.
func withoutLines(providers []targets.Provider) []targets.Provider {
	list := slices.Clone(providers)
	for i := range list {
		list[i].Line, list[i].Concurrency, list[i].Price = 0, 0, targets.Prices{}
		list[i].FallbackAfter, list[i].CallbackDelay = 0, 0
	}
	return list
}
