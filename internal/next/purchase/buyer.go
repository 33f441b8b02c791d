package purchase

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/crash"
	"poold/internal/next/pool"
	"poold/internal/panics"
	"poold/internal/purchase/signature"
	"poold/internal/spool"
)

// Errors of Buy, besides *pool.RefusedError and pool.ErrDown.
var (
	// ErrNoProvider means that no provider is configured.
	ErrNoProvider = errors.New("there is no provider to buy from")
	// ErrSimulatedOnly means that the order may only go to a simulated provider, and that there is none.
	ErrSimulatedOnly = errors.New("only a simulated provider may be used, and there is none")
)

const (
	// callTime limits a call to a provider. It exceeds the client's own time-out, because a submit that
	// is cancelled earlier has an unknown outcome.
	callTime = 20 * time.Second
	// stepTime limits a step in Redis that need not succeed.
	stepTime = 3 * time.Second
	// stopGrace is how long a step that should succeed is repeated after a stop. It is shorter than the
	// daemon's drain limit.
	stopGrace = 5 * time.Second
	// mostAdopted limits the adopted orders that run at once.
	mostAdopted = 4096
	// currency converts prices to billionths.
	currency = 1e9
)

// Spec describes the order that a decision or a request wants.
type Spec struct {
	Target, Owner string
	Identity      captcha.Identity
	ID            captcha.ID
	Depth         int
	Margin        time.Duration
	Lifetime      time.Duration
	Horizon       time.Duration // margin and lead time; see pool.Order
	Shortest      time.Duration // the shortest lead time that was seen; 0 = unknown
	Budgets       []pool.Budget
	SimulatedOnly bool
	Guest         bool    // an identity without a target: a failed order answers a waiting caller
	Image         []byte  // bytes of a picture; the order is unpooled
	Policy        string  // how the provider is chosen: ordered, cheapest or best
	MissCost      float64 // of the target; see Chooser
}

// Chooser chooses the providers of orders whose policy is not ordered. It must not block.
type Chooser interface {
	// Choose returns the index of an offer, and how it was chosen. There is at least one offer.
	Choose(s *Spec, offers []Offer) (index int, choice string)
}

// Observer receives events of this replica. It must not block.
type Observer interface {
	// Ended receives each order that this replica ends, apart from those that were not submitted.
	Ended(p Purchase)
	// Count counts an outcome. The event is callback, dead_letter or report.
	Count(event, provider, outcome string)
}

// Config configures a Buyer.
type Config struct {
	Pool     *pool.Pool
	Letters  string // folder of the dead letters
	Sink     bool   // rows are written for the history
	Chooser  Chooser
	Observer Observer
	Log      *slog.Logger
}

// Buyer buys for all identities of a replica. It is safe for concurrent use.
type Buyer struct {
	// Turn is called with the identity whose turn at an account has come, after an order has ended. It
	// must not block, and is set before the first order; nil = nobody is told.
	Turn func(captcha.ID)

	pool     *pool.Pool
	sink     bool
	chooser  Chooser
	observer Observer
	log      *slog.Logger
	accounts accounts
	secrets  signature.Secrets
	kept     *spool.Spool
	replays  chan struct{} // semaphore: one replay at a time
	reports  chan report
	arrived  chan struct{} // wakes the refresh of limits and balances
	adopted  errgroup.Group

	mu       sync.Mutex
	running  map[string]*order // by name
	closed   bool              // Run ends: no order begins
	idle     chan struct{}     // closed when no order runs after closed
	arrivals map[string]time.Time
	diskErr  bool // an error of the dead letters was logged
}

// New returns a Buyer without providers.
func New(c Config) *Buyer {
	b := &Buyer{
		pool: c.Pool, sink: c.Sink, chooser: c.Chooser, observer: c.Observer, log: c.Log, kept: spool.New(c.Letters),
		replays: make(chan struct{}, 1), reports: make(chan report, mostReports), arrived: make(chan struct{}, 1),
		running: map[string]*order{}, idle: make(chan struct{}), arrivals: map[string]time.Time{},
	}
	b.adopted.SetLimit(mostAdopted)
	return b
}

// add registers an order that begins to run here. False: it runs already, or the buyer stops.
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

// setOwned notes whether this replica owns the order in Redis.
func (b *Buyer) setOwned(o *order, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o.owned = is
}

// own returns an order that runs here, or nil.
func (b *Buyer) own(name string) *order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[name]
}

// Buy carries one order from place to its end, and returns at the end. It calls placed once, as soon as it
// is known whether the order was placed, with the identity whose turn it is next at the account. The
// error of placed is a *pool.RefusedError, ErrNoProvider, ErrSimulatedOnly, pool.ErrDown or that of ctx.
//
// When ctx ends, an order that is not submitted ends; a submit in flight is finished, and its task is
// stored; a bought order stays in the journal.
func (b *Buyer) Buy(ctx context.Context, s Spec, placed func(next captcha.ID, err error)) {
	told := false
	tell := func(next captcha.ID, err error) {
		if !told {
			told = true
			placed(next, err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o := &order{journal: pool.Order{Name: rand.Text()}, stop: stop}
	if ctx.Err() != nil || !b.add(o) {
		tell("", context.Canceled)
		return
	}
	defer b.remove(o)
	defer func() {
		// The order, if any, is resumed like one of a dead replica.
		if cause := recover(); cause != nil {
			panics.Log(b.log, "panic while buying", cause, "target", s.Target)
			tell("", panics.ErrFault)
		}
	}()
	next, err := b.place(ctx, o, &s)
	tell(next, err)
	if err == nil {
		crash.At("placed")
		b.run(ctx, o, pool.Placed)
	}
}

// place chooses an account and stores the order. An account that is braked loses the order to the next
// one. If Redis does not answer, the order may have been stored: then a later beat finds and ends it.
func (b *Buyer) place(ctx context.Context, o *order, s *Spec) (next captcha.ID, err error) {
	accounts, err := b.accounts.candidates(s.SimulatedOnly)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	var refused error
	for len(accounts) > 0 {
		i, choice := b.choose(s, accounts)
		a := accounts[i]
		accounts = append(accounts[:i:i], accounts[i+1:]...)
		b.prepare(o, s, a, choice)
		at, next, err := b.pool.Place(ctx, &o.journal)
		var r *pool.RefusedError
		switch {
		case err == nil:
			o.at, o.placed = at, time.Now()
			o.facts.Placed = at
			b.setOwned(o, true)
			return next, nil
		case !errors.As(err, &r) || r.Reason != pool.ReasonBrake:
			return "", err
		case refused == nil:
			refused = err // of the account that comes first
		}
	}
	return "", refused
}

// prepare fills in the terms under which an account gets the order.
func (b *Buyer) prepare(o *order, s *Spec, a *account, choice string) {
	e := b.accounts.terms(a)
	o.account, o.identity, o.image = a, s.Identity, s.Image
	o.facts = facts{
		Purchase: Purchase{
			Order: o.journal.Name, ID: s.ID, Identity: s.Identity, Target: s.Target, Owner: s.Owner, Provider: a.Name(),
			Choice: choice, Price: -1,
		},
		Fingerprint: e.Account, Lifetime: s.Lifetime, Margin: s.Margin, Shortest: s.Shortest, Timeout: a.Timeout(),
		Called: e.Callbacks.on(), Delay: e.Callbacks.Delay, Fallback: e.Callbacks.fallback(a.Timeout(), s.Lifetime-s.Margin),
		Guest: s.Guest, Budgets: s.Budgets,
	}
	o.facts.Identity.Proxy, o.facts.Identity.ProxyType = "", ""
	if price := e.price(s.Identity.Type); price >= 0 {
		o.facts.Price = int64(math.Round(price * currency))
	}
	o.pingback = e.Callbacks.address(a.Name(), o.journal.Name)
	text, _ := json.Marshal(o.facts) // of strings, numbers and times: no error is possible
	o.journal = pool.Order{
		Name: o.journal.Name, ID: s.ID, Account: a.Name(), Key: a.key, Life: life(a.Timeout()), Concurrency: e.Concurrency,
		Depth: s.Depth, Horizon: s.Horizon, Facts: string(text), Price: o.facts.Price, Unpooled: s.Image != nil, Budgets: s.Budgets,
	}
}

// life returns the time from the placing of an order to its deadline.
func life(timeout time.Duration) time.Duration { return timeout + 2*callTime }
