package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/provider"
)

var (
	// ErrNoProvider: the list of providers is empty.
	ErrNoProvider = errors.New("there is no provider to buy from")
	// ErrBusy: nothing was bought, and it is worth trying again in a moment.
	ErrBusy = errors.New("the provider can take no order now")
	// ErrDepth: the depth sentence refuses another order, or buying is paused.
	ErrDepth = errors.New("the stock needs no order")
	// ErrNotKept: neither Redis nor the disk took a callback.
	ErrNotKept = errors.New("the callback could not be kept")
)

// BudgetError says that a budget is used up. Nothing was bought.
type BudgetError struct {
	Of         pool.Budget   // the one that orders share; "" = the target's own
	RetryAfter time.Duration // until the oldest part of its window leaves it
}

func (e *BudgetError) Error() string {
	whose := "the target's budget"
	switch e.Of {
	case pool.Overall:
		whose = "the overall budget"
	case pool.OfGuests:
		whose = "the budget over all solves that no target has"
	}
	return fmt.Sprintf("%s is used up, there is room again in %v", whose, e.RetryAfter.Round(time.Second))
}

// Solver is the part of a provider that sells tokens.
type Solver interface {
	Submit(ctx context.Context, r provider.Request) (task string, err error)
	Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error)
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
	Timeout() time.Duration
}

// Health is the part of a provider that tells how it is doing.
type Health interface {
	Ready(at time.Time) (bool, time.Duration)
	State(at time.Time) provider.State
	Threads(ctx context.Context) (total int, ok bool, err error)
	ReadBalance(ctx context.Context) error
	// Fault is why the provider is down; nil = it is up. Adopt replaces it.
	Fault() *provider.Fault
	Adopt(ctx context.Context, f *provider.Fault)
	// Answered is when the latest call that got a proper answer was sent; zero = none.
	Answered() time.Time
	// PollTurn reports whether a task may be polled at the given time.
	PollTurn(at time.Time) (ok bool, wait time.Duration)
	// Probe tries the account at once.
	Probe(ctx context.Context) error
}

// Listener is the part of a provider that takes reports on its tokens.
type Listener interface {
	Report(ctx context.Context, task string, t captcha.Type, good bool) error
	ReportWindow() time.Duration // how long after the solve
}

// Provider is what the buyer needs of a *provider.Client. Its dynamic type must
// be comparable: a reload that brings the same value changes nothing.
type Provider interface {
	Name() string
	Solver
	Health
	Listener
}

// Permits counts the orders at each provider over all replicas.
type Permits interface {
	Acquire(ctx context.Context, provider string, order pool.Ref, limit int, ttl, answered time.Duration) (permits.Permit, error)
	// GiveBack releases the permit of an order that was not placed.
	GiveBack(ctx context.Context, provider string, order pool.Ref) error
	Release(ctx context.Context, provider string, order pool.Ref) error
	Holders(ctx context.Context, provider string) ([]pool.Ref, error)
	// Providers lists the names at which there may be places, also of providers
	// that other replicas know, or knew.
	Providers(ctx context.Context) ([]string, error)
	InFlight(ctx context.Context, providers []string) ([]int, error)
}

// Standings tell all replicas how the providers do.
type Standings interface {
	ReportFault(ctx context.Context, provider string, f permits.Fault) error
	ReportUp(ctx context.Context, provider string, sent time.Duration) error
	ReportRefusal(ctx context.Context, provider string) error
	ReportAccepted(ctx context.Context, provider string) error
	Standing(ctx context.Context, provider string) (permits.Standing, error)
	ProbeNow(ctx context.Context, provider string) (waited bool, err error)
}

// Budgets are those that orders of many identities share, over all replicas.
type Budgets interface {
	Book(ctx context.Context, of pool.Budget, order pool.Ref, caps pool.Caps, notAfter pool.Moment) (wait time.Duration, err error)
	// Refund is harmless where the order is not in the budget.
	Refund(ctx context.Context, of pool.Budget, order pool.Ref) error
	Booked(ctx context.Context, of pool.Budget) (hour, day int, err error)
}

// Journal keeps the orders beside the stock of their identity.
type Journal interface {
	Place(ctx context.Context, o pool.Order) (pool.Placing, error)
	Mark(ctx context.Context, order pool.Ref) (ok bool, err error)
	Claim(ctx context.Context, provider, task string, order pool.Ref, ttl time.Duration) (ok bool, err error)
	Submitted(ctx context.Context, order pool.Ref, task string) (ok bool, err error)
	Unknown(ctx context.Context, order pool.Ref, hold time.Duration) (ok bool, err error)
}

// Endings end orders, whoever brings the news.
type Endings interface {
	Find(ctx context.Context, order pool.Ref) (pool.Record, bool, error)
	// FindAll returns those of many orders that there are.
	FindAll(ctx context.Context, orders []pool.Ref) ([]pool.Record, error)
	Settle(ctx context.Context, l pool.Landing) (pool.Ending, error)
	Fail(ctx context.Context, f pool.Failure) (pool.Ending, error)
	// Remembers reports whether it is known that an order that is gone ended.
	Remembers(ctx context.Context, order pool.Ref) (bool, error)
}

// Leases say which replica works on an order.
type Leases interface {
	Adopt(ctx context.Context, id captcha.ID, orders []string) (adopted []pool.Record, gone []pool.Ref, err error)
	Renew(ctx context.Context, orders []pool.Ref) (lost []pool.Ref, err error)
	LetGo(ctx context.Context, orders []pool.Ref) error
}

// Orders is what the buyer needs of the stock; *pool.Orders implements it.
type Orders interface {
	Permits
	Standings
	Budgets
	Journal
	Endings
	Leases
}

// The outcomes of a report.
const (
	ReportPassed  = "passed"
	ReportLate    = "late"    // the provider's window was over
	ReportRefused = "refused" // or the provider takes none of this kind
)

// Entry is one provider of the list and the terms of buying there.
type Entry struct {
	Provider    Provider
	Account     string // which account it is, whatever its name (Account); "" = nobody knows
	Concurrency int    // most orders at once over all replicas
	Callbacks   Callbacks
	Price       func(captcha.Type) float64 // of one token; below 0 = unknown, nil = 0
}

// Callbacks says how a provider tells of the end of its tasks.
type Callbacks struct {
	URL     string           // public base of this daemon; "" = not at all
	Secrets []captcha.Secret // the first signs, all verify
	// Fallback is how long to wait for a callback before polling; 0 = the least
	// of 120 s, half the provider's time-out and half the token's usable life.
	Fallback time.Duration
	// Delay is how old a token is taken to be when its callback first arrives.
	Delay time.Duration
}

// GuestTarget stands for all guests together where a target's name would stand: in
// orders, logs, events and metrics. No target can have it.
const GuestTarget = "/solve"

// Spec says what an order is for. It is the target's definition at the moment
// of placing; a later reload does not change it.
type Spec struct {
	Target   string // name, for logs and events; GuestTarget = where it fails a caller is told
	Owner    string // of the target
	Identity captcha.Identity
	ID       captcha.ID // of Identity
	Depth    int
	Margin   time.Duration
	Lifetime time.Duration
	Lead     time.Duration // fresh tokens that do not outlive it do not count
	// Shortest is the shortest of the learned lead times; 0 = too few are known.
	Shortest        time.Duration
	PerHour, PerDay int // the target's budgets; 0 = no cap
	// Guests is the budget over all guests, where the order is for one; zero = it is
	// for a target.
	Guests pool.Caps
	// Image is the picture of a captcha.Image; else nil. It is in memory alone, and
	// nothing here refers to it after the submit.
	Image []byte
}

func (s Spec) isGuest() bool { return s.Target == GuestTarget }

// Status is how one provider of the list is doing.
type Status struct {
	Name        string
	State       provider.State
	InFlight    int // orders that hold a place, over all replicas
	Concurrency int // most at once: the file's, or fewer where the provider has fewer threads
	// Silent: the last tasks had no callback although they should have had one, so
	// that tasks are polled from the start.
	Silent bool
}
