package purchase

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/crash"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/choice"
	"poold/internal/purchase/signature"
	"poold/internal/spool"
)

// Errors of Buy, besides *pool.NotPlacedError, pool.ErrDown and panics.ErrFault.
var (
	// ErrNoProvider means that no provider is configured.
	ErrNoProvider = errors.New("there is no provider to buy from")
	// ErrSimulatedOnly means that an order may go only to a simulated provider, and that the file has no such provider.
	ErrSimulatedOnly = errors.New("only a simulated provider may be used, and there is none")
	// ErrNoPrice means that a budget in money applies to an order, and that no provider has a price for it.
	ErrNoPrice = errors.New("a budget limits money, and no provider has a price_per_1000 for this type")
)

const (
	// completeTime limits the poll that fetches the fields that a callback's solution lacks.
	completeTime = 2 * time.Second
	// stepEvery is the mean pause before a step that must succeed is repeated. Each pause differs from it by at most half.
	stepEvery = 500 * time.Millisecond
	// persistFor is how long a step that should succeed is repeated after the daemon began to stop. persistFor is shorter
	// than the time in which the daemon must stop.
	persistFor = 5 * time.Second
	// mostAdopted limits the adopted orders that run at once.
	mostAdopted = 4096
	// billion is the factor by which prices are stored.
	billion = 1e9
)

// GuestTarget stands for the target in orders for guests. No target of a file can have this name.
const GuestTarget = "/solve"

// Spec describes the order that a decision or a request wants.
type Spec struct {
	Target, Owner string
	Identity      captcha.Identity
	ID            captcha.ID
	Depth         int
	Margin        time.Duration
	Lifetime      time.Duration
	Horizon       time.Duration // the margin, and with refill: fixed the lead time; see pool.Order
	Shortest      time.Duration // the shortest of the identity's last lead times; 0 = unknown
	Usual         time.Duration // the median one
	Budgets       []pool.Budget
	Priced        bool // the caller's budget needs a price, too
	SimulatedOnly bool
	Guest         bool     // an identity without a target: a failed order answers a waiting caller
	Image         []byte   // bytes of a picture; the order is unpooled
	Policy        string   // how the provider is chosen: ordered, cheapest or best
	Urgent        bool     // a caller waits for the order
	Probe         bool     // the identity's orders failed: its one try does not also try a provider that is down
	Avoid         []string // providers that get the order only if no other can; not with the policy ordered
}

// ordered reports whether orders go to the first usable provider of the file.
func (s *Spec) ordered() bool { return s.Policy == "" || s.Policy == choice.Ordered }

// Observer receives events of this replica. It must not block.
type Observer interface {
	// Ended receives each order that this replica ends, apart from those that were not submitted. The argument took is the
	// time from the submit until this replica had the token; 0 = no token came.
	Ended(p Purchase, took time.Duration)
	// Count counts an outcome. The event is callback, dead_letter or report.
	Count(event, provider, outcome string)
}

// Config configures a Buyer.
type Config struct {
	// CallTime limits a call to a provider; 0 = 20 s. CallTime exceeds the client's own timeout, because a submit that
	// the Buyer cancels has an unknown outcome.
	CallTime time.Duration
	Pool     *pool.Pool
	// ProviderChanged is called when a provider goes down or up. The argument none says that no provider takes orders now.
	// When a provider is up again, its state still says since when it was down. The function must not block; nil = no
	// observer.
	ProviderChanged func(name string, down bool, state provider.Condition, none bool)
	// BalanceRead is called with each balance that the Buyer has read from a service. It must not block; nil = no
	// observer.
	BalanceRead func(provider string, balance float64)
	UsedUp      pool.ToldUsedUp // is called if a budget refuses an order; it must not block; nil = no call
	Letters     string          // folder of the dead letters
	Sink        bool            // rows of ends are written for the history
	Active      bool            // rows of purchases are written too, for a store that shows orders in flight
	Observer    Observer
	Log         *slog.Logger
}

// Buyer buys for all identities of a replica. It is safe for concurrent use.
type Buyer struct {
	// Turn is called when an order has ended. Its argument is the identity that may place the next order at the account.
	// Turn must not block. It is set before the first order; nil = no call.
	Turn func(captcha.ID)
	// Chooser chooses the providers of orders whose policy is not ordered, and compares the providers.
	Chooser *choice.Chooser

	c         Config
	refusals  Refusals
	accounts  accounts
	secrets   signature.Secrets
	kept      *spool.Spool
	reports   errgroup.Group
	adopted   errgroup.Group
	arrivals  sync.Map    // order -> time of its first callback, until that is delivered
	diskFails atomic.Bool // an error of the dead letters was logged
	missed    sync.Map    // names of providers that are gone, whose tasks were logged

	beats int // handled ones; of handleBeat

	mu      sync.Mutex
	running map[string]*order // by name
	closed  bool              // Run ends: no order begins
	idle    chan struct{}     // closed when no order runs after closed
}

// New returns a Buyer without providers.
func New(c Config) *Buyer {
	c.CallTime = cmp.Or(c.CallTime, 20*time.Second)
	b := &Buyer{
		c: c, refusals: Refusals{c.Pool, c.Log, c.UsedUp}, kept: spool.New(c.Letters), idle: make(chan struct{}),
		running: map[string]*order{}, Chooser: choice.New(c.Pool, c.Log),
	}
	b.reports.SetLimit(mostReports)
	b.adopted.SetLimit(mostAdopted)
	return b
}

// add registers an order that begins to run at this replica. It returns false if the order runs here already, or if the
// Buyer stops.
func (b *Buyer) add(o *order) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.running[o.journal.Name] != nil {
		return false
	}
	b.running[o.journal.Name] = o
	return true
}

func (b *Buyer) remove(o *order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, o.journal.Name)
	if b.closed && len(b.running) == 0 {
		close(b.idle)
	}
}

// own returns an order that runs at this replica, or nil.
func (b *Buyer) own(name string) *order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[name]
}

// Buy carries one order from place to its end, and returns at the end. It calls the function tried once, as soon as it
// is known whether the order was placed. Arguments are the identity that may place the next order at the account, and
// an error. This is a *pool.NotPlacedError, ErrNoProvider, ErrSimulatedOnly, ErrNoPrice, pool.ErrDown, panics.ErrFault
// or the error of ctx. If an order for a guest was not placed, its callers get an answer before (see Refusals).
//
// When ctx ends, an order that is not submitted yet ends. A submit in flight is completed, and its task is stored. A
// bought order stays in the journal.
func (b *Buyer) Buy(ctx context.Context, s Spec, tried func(next captcha.ID, err error)) {
	var once sync.Once
	tell := func(next captcha.ID, err error) {
		once.Do(func() {
			b.refusals.Tell(ctx, &s, err)
			tried(next, err)
		})
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	o := &order{journal: pool.Order{Name: rand.Text()}, stop: stop}
	if ctx.Err() != nil || !b.add(o) {
		tell("", context.Canceled)
		return
	}
	defer b.remove(o)
	panicked := panics.Contain(b.c.Log, "panic while buying", func() {
		next, err := b.place(running, o, &s)
		if tell(next, err); err == nil {
			crash.At("placed")
			b.run(running, o, pool.Placed)
		}
	})
	tell("", panicked) // a stored order is resumed like an order of a dead replica
}

// place chooses an account and stores the order. If the account's brake refuses the order, place tries the next
// account. With the policy best it does the same if no permit is free and a caller waits for the order. If Redis does
// not answer, the order may have been stored; a later beat then finds and ends it.
func (b *Buyer) place(ctx context.Context, o *order, s *Spec) (next captcha.ID, err error) {
	accounts, none := b.accounts.list(), ErrNoProvider
	if s.SimulatedOnly && len(accounts) > 0 {
		none = ErrSimulatedOnly
		accounts = slices.DeleteFunc(accounts, func(a *account) bool { l, _, _ := b.accounts.terms(a); return !l.Simulated })
	}
	if len(accounts) > 0 && (s.Priced ||
		slices.ContainsFunc(s.Budgets, func(budget pool.Budget) bool { return budget.HasMoney() })) {
		none = ErrNoPrice
		accounts = slices.DeleteFunc(accounts, func(a *account) bool {
			l, _, _ := b.accounts.terms(a)
			return l.Price(s.Identity.Type) < 0 && !l.Simulated
		})
	}
	if len(accounts) == 0 {
		return "", none
	}
	avoided := func(a *account) bool { return slices.Contains(s.Avoid, a.Name()) }
	if rest := slices.DeleteFunc(slices.Clone(accounts), avoided); len(rest) > 0 && !s.ordered() {
		accounts = rest
	}
	ctx = context.WithoutCancel(ctx)
	var refused *pool.NotPlacedError // of the account that comes first, with the texts of all
	for len(accounts) > 0 {
		i, how := b.choose(s, accounts)
		a := accounts[i]
		accounts = slices.Delete(accounts, i, i+1)
		b.prepare(o, s, a, how)
		at, next, err := b.c.Pool.Place(ctx, &o.journal)
		var r *pool.NotPlacedError
		spills := s.Urgent && s.Policy == choice.Best
		switch {
		case err == nil:
			o.at, o.placed = at, time.Now()
			o.facts.Placed = at
			o.owned.Store(true)
			return next, nil
		case !errors.As(err, &r), r.Reason != pool.ReasonBrake && (r.Reason != pool.ReasonPermit || !spills):
			return "", err
		case refused == nil:
			refused = r
		case refused.Reason == r.Reason:
			refused.Text += "; " + r.Text
		}
		if how == choice.Probe { // another replica has probed
			b.accounts.probeIn(a, r.After)
		}
	}
	return "", refused
}

// prepare fills in the fields of an order that depend on its account, such as price and deadline.
func (b *Buyer) prepare(o *order, s *Spec, a *account, how string) {
	l, _, _ := b.accounts.terms(a)
	o.account, o.identity, o.image = a, s.Identity, s.Image
	o.facts = facts{
		Purchase: Purchase{
			Order: o.journal.Name, ID: s.ID, Identity: s.Identity, Target: s.Target, Owner: s.Owner, Provider: a.Name(),
			Choice: how, Price: -1,
		},
		Fingerprint: l.Fingerprint, Lifetime: s.Lifetime, Margin: s.Margin, Shortest: s.Shortest, Usual: s.Usual,
		Timeout: a.Timeout(), HasCallback: l.Callbacks.on(), Delay: l.Callbacks.Delay,
		Fallback: cmp.Or(l.Callbacks.Fallback, min(longestFallback, a.Timeout()/2, (s.Lifetime-s.Margin)/2)),
		Guest:    s.Guest, Budgets: s.Budgets,
	}
	o.facts.Identity.Proxy, o.facts.Identity.ProxyType = "", ""
	if price := l.Price(s.Identity.Type); price >= 0 {
		o.facts.Price = int64(math.Round(price * billion))
	}
	o.callbackURL = l.Callbacks.address(a.Name(), o.journal.Name)
	text, _ := json.Marshal(o.facts) // of strings, numbers and times: no error is possible
	o.journal = pool.Order{
		Name: o.journal.Name, ID: s.ID, Account: a.Name(), Key: a.key, Life: b.life(a.Timeout()), Depth: s.Depth,
		Concurrency: l.Concurrency, Horizon: s.Horizon, Facts: string(text), Price: o.facts.Price, Unpooled: s.Image != nil,
		Budgets: s.Budgets,
	}
}

// life returns the time from the placing of an order to its deadline.
func (b *Buyer) life(timeout time.Duration) time.Duration { return timeout + 2*b.c.CallTime }

// OrderInFlight is an order of any replica that may have been submitted.
type OrderInFlight struct {
	Purchase

	State pool.State
	Age   time.Duration // since the submit
}

// OrdersInFlight lists the orders in flight of all replicas, in any order.
func (b *Buyer) OrdersInFlight(ctx context.Context) (list []OrderInFlight, err error) {
	all, err := b.c.Pool.Journal(ctx)
	for i := range all {
		if e := &all[i]; e.State != pool.Placed {
			list = append(list, OrderInFlight{readOrder(e).facts.Purchase, e.State, e.Age - e.Submitted.Sub(e.Placed)})
		}
	}
	return list, err
}

// Run does the regular work of the Buyer until ctx ends. It beats, resumes adopted orders and orders that were left
// behind, and ends orders past their deadline. It also replays dead letters, and reads brakes, thread limits and
// balances. When ctx has ended, Run stops all orders of this replica: submits in flight are completed, and bought
// orders are left to other replicas.
func (b *Buyer) Run(ctx context.Context) error {
	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeats()
	var pulse, duties sync.WaitGroup
	var recovery errgroup.Group
	recovery.SetLimit(1)
	pulse.Go(func() {
		_ = b.c.Pool.Run(beats, func(late []string) { // it does not fail
			recovery.TryGo(func() error { // else the former beat's orders are being handled
				return panics.Contain(b.c.Log, "panic while recovering orders", func() { b.handleBeat(ctx, late) })
			})
		})
	})
	duties.Go(func() { b.repeat(ctx, replayEvery, func(ctx context.Context) { _, _ = b.Replay(ctx) }) })
	duties.Go(func() { b.repeat(ctx, time.Second, b.readBrakes) })
	duties.Go(func() { b.repeat(ctx, time.Second, b.Chooser.Read) })
	duties.Go(func() { b.repeat(ctx, time.Second, b.refresh) })
	duties.Wait()

	// The beats go on until the last submit in flight is stored: otherwise another replica would take its
	// order over.
	b.mu.Lock()
	b.closed = true
	for _, o := range b.running {
		o.stop()
	}
	if len(b.running) == 0 {
		close(b.idle)
	}
	b.mu.Unlock()
	<-b.idle
	_ = errors.Join(b.adopted.Wait(), b.reports.Wait()) // panics, which are logged
	stopBeats()
	pulse.Wait()
	_ = recovery.Wait()
	_ = b.c.Pool.Leave(context.WithoutCancel(ctx)) // else the others take the orders over when this replica counts as dead
	return nil
}

// repeat calls work at once, and then again and again until ctx ends. A panic ends only one call.
func (b *Buyer) repeat(ctx context.Context, every time.Duration, work func(context.Context)) {
	for {
		_ = panics.Contain(b.c.Log, "panic at the buyer", func() { work(ctx) })
		if backoff.Sleep(ctx, every) != nil {
			return
		}
	}
}

// handleBeat ends orders past their deadline after each beat. After every second beat it also calls compare, so adopted
// orders continue at most 2 s after their adoption.
func (b *Buyer) handleBeat(ctx context.Context, late []string) {
	if b.beats++; b.beats%2 == 0 {
		b.compare(ctx)
	}
	for _, name := range late {
		b.endLate(ctx, name)
	}
}

// compare compares the orders that this replica owns in Redis with those that run here. It resumes owned orders that do
// not run: adopted orders, and orders that a panic or a lost answer of Redis left behind. It stops orders that run here
// but are not owned: a callback at another replica has ended them, or another replica runs them.
func (b *Buyer) compare(ctx context.Context) {
	b.mu.Lock()
	running := maps.Clone(b.running)
	maps.DeleteFunc(running, func(_ string, o *order) bool { return !o.waits.Load() || !o.owned.Load() })
	b.mu.Unlock()
	names, err := b.c.Pool.Owned(ctx)
	if err != nil {
		return
	}
	for _, name := range names {
		delete(running, name)
		if b.own(name) == nil {
			b.resume(ctx, name)
		}
	}
	for name, o := range running {
		if !o.waits.Load() {
			continue // it ends by itself
		}
		o.owned.Store(false)
		o.elsewhere.Store(true)
		o.stop()
		if a, _ := b.accounts.of(&o.facts); a != nil && o.facts.HasCallback {
			if _, goesOn, err := b.c.Pool.Find(ctx, name); err == nil && !goesOn {
				b.noteCallback(a, true)
			}
		}
	}
}

// resume continues an order that this replica owns. If the order is bought, resume polls it; otherwise the table `ends`
// says what happens.
func (b *Buyer) resume(ctx context.Context, name string) {
	e, is, err := b.c.Pool.Find(ctx, name)
	if err != nil || !is || e.Owner != b.c.Pool.Replica {
		return
	}
	o := readOrder(&e)
	ctx, o.stop = context.WithCancel(ctx)
	o.owned.Store(true)
	if !b.add(o) {
		o.stop()
		return
	}
	done := func() { b.remove(o); o.stop() }
	b.c.Log.Info("an order is taken over", "target", o.facts.Target, "provider", o.facts.Provider, "order", name,
		"task", e.Task)
	started := b.adopted.TryGo(func() error {
		defer done()
		return panics.Contain(b.c.Log, "panic in an adopted order", func() {
			if e.State == pool.Bought {
				b.run(ctx, o, pool.Bought)
			} else {
				b.finish(ctx, o, e.State, news{trigger: adopted})
			}
		})
	})
	if !started { // a later beat tries again
		done()
	}
}

// endLate ends an order past its deadline, whoever owns it.
func (b *Buyer) endLate(ctx context.Context, name string) {
	e, is, err := b.c.Pool.Find(ctx, name)
	switch {
	case err != nil:
	case is:
		_, err = b.end(ctx, readOrder(&e), e.State, news{trigger: late, by: "deadline"})
	default:
		err = b.c.Pool.Drop(ctx, name)
	}
	if err != nil {
		b.c.Log.Debug("an order past its deadline stays", "order", name, "err", err)
	}
}
