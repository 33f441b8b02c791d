package purchase

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
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
	// ErrRefused: the provider finds fault with the target's parameters, so
	// that another try with the same ones is in vain.
	ErrRefused = errors.New("the provider refuses the target's parameters")
	// ErrFailed: the task was bought and brought no token.
	ErrFailed = errors.New("the task brought no token")
	// ErrLost: nobody can say what became of the order. It counts as bought.
	ErrLost = errors.New("the order's fate is unknown")
)

// Solver is the part of a provider that sells tokens.
type Solver interface {
	Submit(ctx context.Context, id captcha.Identity) (task string, err error)
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
}

// Provider is what the desk needs of a *provider.Client. Its dynamic type must
// be comparable: a reload that brings the same value changes nothing.
type Provider interface {
	Name() string
	Solver
	Health
}

// Places counts the orders at each provider over all replicas.
type Places interface {
	Reserve(ctx context.Context, provider, order string, limit int, ttl time.Duration) (ok bool, inFlight int, err error)
	Release(ctx context.Context, provider, order string) error
	InFlight(ctx context.Context, providers []string) ([]int, error)
}

// Journal keeps the orders beside the stock of their identity.
type Journal interface {
	Place(ctx context.Context, o pool.Order) (placed bool, s pool.Stock, err error)
	Submitted(ctx context.Context, id captcha.ID, order, task string) error
	Settle(ctx context.Context, l pool.Landing) (settled bool, err error)
	Fail(ctx context.Context, id captcha.ID, order string, counted bool) (removed bool, err error)
}

// Stock is what the desk needs of a *pool.Store.
type Stock interface {
	Places
	Journal
}

// The outcomes that an Observer is told.
const (
	Solved  = "solved"
	Failed  = "failed"  // bought, no token
	Lost    = "lost"    // counted as bought, fate unknown
	Refused = "refused" // the target's parameters; not bought
	Busy    = "busy"    // capacity or account; not bought
)

// Observer is told how each submitted order ended, and how long after its
// submit. It must not block. Orders that a stop interrupts are not told.
type Observer interface {
	Solve(target, provider, outcome string, took time.Duration)
}

// Entry is one provider of the list and the most orders that it shall have at
// once over all replicas.
type Entry struct {
	Provider    Provider
	Concurrency int
}

// Spec says what an order is for. It is the target's definition at the moment
// of placing; a later reload does not change it.
type Spec struct {
	Target   string // name, for logs and metrics
	Identity captcha.Identity
	ID       captcha.ID // of Identity
	Depth    int
	Margin   time.Duration
	Lifetime time.Duration
	Lead     time.Duration // fresh tokens that do not outlive it do not count
}

// Status is how one provider of the list is doing.
type Status struct {
	Name        string
	State       provider.State
	InFlight    int // orders that hold a place, over all replicas
	Concurrency int // most at once: the file's, or fewer where the provider has fewer threads
}
