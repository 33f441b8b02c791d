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
	// The first looks of workers that start together are startStep apart, but
	// none waits longer than startMost.
	startStep = 500 * time.Microsecond
	startMost = time.Second
	// Orders of replicas that are gone are looked for this often, and up to a
	// quarter later. With the lease of an order that makes 8 s at most.
	adoptEvery = 2 * time.Second
	// firstAdopt bounds the first look, which comes before anything is bought.
	firstAdopt = 3 * time.Second
	// settleMargin is for the calls before and after an order's own time.
	settleMargin = time.Minute
)

// Stock is what refill needs of pool.Tokens and pool.Controls.
type Stock interface {
	// Survey looks at many identities in one exchange; see pool.Store.Survey.
	Survey(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	// Leave looks a last time at an identity that nobody wants any more.
	Leave(ctx context.Context, id captcha.ID, margin time.Duration) error
	// Recall gives back what Remember was given last for an identity, nil for nothing.
	Recall(ctx context.Context, id captcha.ID) ([]byte, error)
	Remember(ctx context.Context, id captcha.ID, learned []byte) error
	// Retry lets an identity whose orders fail place its next order at once.
	Retry(ctx context.Context, id captcha.ID) (bounded bool, err error)
}

// Buyer is what refill needs of a *purchase.Buyer.
type Buyer interface {
	Request(bid purchase.Bid, granted func(*purchase.Slot, error)) *purchase.Request
	Buy(ctx context.Context, slot *purchase.Slot, spec purchase.Spec, ended func(purchase.Result)) error
	Adopt(ctx context.Context, within time.Duration, ended func(captcha.ID, purchase.Result)) error
	Wait() error
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
	Concurrency() int
}

// Manager keeps one worker running for each target. It is safe for concurrent
// use.
type Manager struct {
	stock    Stock
	replicas Replicas
	buyer    Buyer
	others   func(captcha.ID, purchase.Result)
	log      *slog.Logger

	looker  *looker
	workers atomic.Pointer[workers] // replaced whole by Run
	applies chan application        // to Run
	ended   chan struct{}           // closed when Run takes no more of them

	mu      sync.Mutex
	running bool
	first   *targets.Set // applied before Run
	// departed are identities that went, until their accounts are settled.
	departed []departure
}

// departure is an identity that nobody wants any more.
type departure struct {
	id     captcha.ID
	margin time.Duration
	due    time.Time // when the last of its tokens and orders must be over
}

// workers are those of the targets that are worked for.
type workers struct {
	providers []targets.Provider
	byID      map[captcha.ID]*handle
	byName    map[string]*handle
}

// application is a set on its way to Run; done is closed when it is applied.
type application struct {
	set  *targets.Set
	done chan struct{}
}

// NewManager makes a manager without targets. others is told how adopted orders ended
// of identities that no target has; it must not block.
func NewManager(stock Stock, replicas Replicas, buyer Buyer, others func(captcha.ID, purchase.Result), log *slog.Logger) *Manager {
	m := &Manager{
		stock: stock, replicas: replicas, buyer: buyer, others: others, log: log,
		looker: newLooker(stock, replicas, log), applies: make(chan application), ended: make(chan struct{}),
	}
	m.workers.Store(&workers{})
	return m
}

// Apply makes the set's targets the ones that are worked for. When it returns,
// workers of targets that went or changed have ended; their orders under way
// go on. Before Run it only remembers the set, after Run it does nothing; where
// ctx ends it returns early, and the set is applied all the same if Run had
// taken it.
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

// Kick says that something happened to an identity, so that its worker looks
// soon. It never blocks, and an identity without a worker is no error.
func (m *Manager) Kick(id captcha.ID) {
	if h := m.workers.Load().byID[id]; h != nil {
		m.looker.kick(h)
	}
}

// Has reports whether a target that is worked for has the identity.
func (m *Manager) Has(id captcha.ID) bool { return m.workers.Load().byID[id] != nil }

// Status tells how the target of that name is doing; false where there is none.
func (m *Manager) Status(name string) (Status, bool) {
	h := m.workers.Load().byName[name]
	if h == nil {
		return Status{}, false
	}
	return h.shown(), true
}

// Run works until ctx ends, then places no more orders and returns when every
// goroutine has ended, those of the orders too; orders that are being polled are left
// in the journal. It may be called once.
func (m *Manager) Run(ctx context.Context) error {
	defer close(m.ended)
	// Orders live under Run's ctx: they outlive the worker that placed them.
	buy := func(w *worker, slot *purchase.Slot, on terms) error {
		return m.buyer.Buy(ctx, slot, w.spec(on), func(r purchase.Result) { w.ended(r, m.Kick) })
	}

	// What is under way is collected before anything is bought.
	m.adopt(ctx, firstAdopt)
	m.looker.passed.Store(time.Now().UnixNano())
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

// reconcile makes running equal wanted. Only Run calls it.
func (m *Manager) reconcile(ctx context.Context, set *targets.Set, buy buy) {
	old := m.workers.Load()
	providers := withoutLines(set.Providers)
	otherProviders := !slices.Equal(old.providers, providers)
	next := &workers{providers: providers, byID: map[captcha.ID]*handle{}, byName: map[string]*handle{}}
	went := maps.Clone(old.byID)
	var came []*handle
	for _, t := range set.Targets {
		owner := t.Owner
		t = definition(t)
		h := old.byID[t.ID]
		if h != nil && reflect.DeepEqual(h.target, t) {
			delete(went, t.ID)
			if otherProviders {
				m.retry(ctx, h)
				m.looker.kick(h)
			}
		} else {
			if h != nil {
				m.retry(ctx, h)
			}
			h = &handle{worker: newWorker(t, m.stock, m.buyer, buy, m.log), done: make(chan struct{}), place: -1}
			h.ctx, h.stop = context.WithCancel(ctx)
			came = append(came, h)
		}
		h.owner.Store(&owner)
		next.byID[t.ID], next.byName[t.Name] = h, h
	}
	m.looker.dismiss(slices.Collect(maps.Values(went)))
	m.workers.Store(next)
	m.seeOff(went, next, slices.Concat(old.providers, set.Providers))
	for i, h := range came {
		m.looker.add(h, min(time.Duration(i)*startStep, startMost))
	}
}

// retry lets a target whose orders fail place the next one at once, after its definition
// or the list of providers changed: what one provider refused another one may take.
func (m *Manager) retry(ctx context.Context, h *handle) {
	if !h.status.snapshot().Failing {
		return
	}
	limited, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	if _, err := m.stock.Retry(limited, h.target.ID); err != nil {
		h.log.Debug("the next order keeps its time", "err", err)
	}
}

// definition is a target without what does not concern its worker, so that a
// line that moved down or a new owner disturbs nobody.
func definition(t targets.Target) targets.Target {
	t.Line, t.Owner, t.OnEmpty, t.Rate = 0, "", "", targets.Rate{}
	return t
}

// withoutLines is the list of providers without the lines that they stand on.
func withoutLines(providers []targets.Provider) []targets.Provider {
	list := slices.Clone(providers)
	for i := range list {
		list[i].Line, list[i].Concurrency, list[i].Price = 0, 0, targets.Prices{}
		list[i].FallbackAfter, list[i].CallbackDelay = 0, 0
	}
	return list
}
