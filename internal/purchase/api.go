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
	// ErrBusy: nothing was bought, and a retry in a moment may succeed.
	ErrBusy = errors.New("the provider takes no order now")
	// ErrDepth: the stock has enough tokens and orders, or buying is paused.
	ErrDepth = errors.New("the stock needs no order")
	// ErrNotKept: neither Redis nor the disk took a callback.
	ErrNotKept = errors.New("neither redis nor the disk stored the callback")
)

// BudgetError says that a budget is used up. Nothing was bought.
type BudgetError struct {
	Of         pool.Budget   // a shared budget; "" = the target's
	RetryAfter time.Duration // until the oldest solve leaves the window
}

// Error names the budget and when it has room.
func (e *BudgetError) Error() string {
	whose := "the target's budget"
	switch e.Of {
	case pool.Overall:
		whose = "the overall budget"
	case pool.OfGuests:
		whose = "the budget of solves without a target"
	}
	return fmt.Sprintf("%s is used up; there is room again in %v", whose, e.RetryAfter.Round(time.Second))
}

// Provider is the part of *provider.Client that the buyer uses. Its dynamic type must be
// comparable: a reload with the same value changes nothing.
type Provider interface {
	Name() string

	Submit(ctx context.Context, r provider.Request) (task string, err error)
	Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error)
	Pace(t captcha.Type) (firstPoll, interval time.Duration)
	Timeout() time.Duration

	Ready(at time.Time) (bool, time.Duration)
	State(at time.Time) provider.State
	Threads(ctx context.Context) (total int, ok bool, err error)
	ReadBalance(ctx context.Context) error
	// Fault returns why the provider is down, or nil. Adopt replaces it.
	Fault() *provider.Fault
	Adopt(ctx context.Context, f *provider.Fault)
	// Answered returns when the latest call with a valid answer was sent; zero = none.
	Answered() time.Time
	// PollTurn reports whether a task may be polled at the given time.
	PollTurn(at time.Time) (ok bool, wait time.Duration)
	// Probe makes a call to the account now.
	Probe(ctx context.Context) error

	Report(ctx context.Context, task string, t captcha.Type, good bool) error
	ReportWindow() time.Duration // how long after the solve
}

// Orders is the part of the store that the buyer uses; *pool.Orders with *permits.Permits
// implement it.
type Orders interface {
	// Permits count the orders at each provider over all replicas. ReleaseUnplaced returns the
	// permit of an order that was not placed. Providers lists the names with permits, also of
	// providers that only other replicas have or had.
	Acquire(ctx context.Context, provider string, order pool.Ref, limit int, ttl, answered time.Duration) (permits.Permit, error)
	ReleaseUnplaced(ctx context.Context, provider string, order pool.Ref) error
	Release(ctx context.Context, provider string, order pool.Ref) error
	Holders(ctx context.Context, provider string) ([]pool.Ref, error)
	Providers(ctx context.Context) ([]string, error)
	InFlight(ctx context.Context, providers []string) ([]int, error)

	// Standings: replicas share the state of each provider.
	ReportFault(ctx context.Context, provider string, f permits.Fault) error
	ReportUp(ctx context.Context, provider string, sent time.Duration) error
	ReportRefusal(ctx context.Context, provider string) error
	ReportAccepted(ctx context.Context, provider string) error
	Standing(ctx context.Context, provider string) (permits.Standing, error)
	ProbeNow(ctx context.Context, provider string) (waited bool, err error)

	// Budgets that orders of many identities share. Refund is a no-op if the order has no
	// reservation.
	Book(ctx context.Context, of pool.Budget, order pool.Ref, caps pool.Caps, notAfter pool.RedisTime) (wait time.Duration, err error)
	Refund(ctx context.Context, of pool.Budget, order pool.Ref) error
	Booked(ctx context.Context, of pool.Budget) (hour, day int, err error)

	// The journal keeps the orders beside the stock of their identity.
	Place(ctx context.Context, o pool.Order) (pool.Placing, error)
	MarkSubmitting(ctx context.Context, order pool.Ref) (ok bool, err error)
	ClaimTask(ctx context.Context, provider, task string, order pool.Ref, ttl time.Duration) (ok bool, err error)
	Submitted(ctx context.Context, order pool.Ref, task string) (ok bool, err error)
	Unknown(ctx context.Context, order pool.Ref, hold time.Duration) (ok bool, err error)

	// Ends of orders. FindAll returns the orders that exist. Remembers reports whether the store
	// knows that a missing order has ended.
	Find(ctx context.Context, order pool.Ref) (pool.Record, bool, error)
	FindAll(ctx context.Context, orders []pool.Ref) ([]pool.Record, error)
	Settle(ctx context.Context, l pool.Landing) (pool.EndResult, error)
	Fail(ctx context.Context, f pool.Failure) (pool.EndResult, error)
	Remembers(ctx context.Context, order pool.Ref) (bool, error)

	// Leases record which replica runs an order.
	Adopt(ctx context.Context, id captcha.ID, orders []string) (adopted []pool.Record, gone []pool.Ref, err error)
	Renew(ctx context.Context, orders []pool.Ref) (lost []pool.Ref, err error)
	ReleaseLeases(ctx context.Context, orders []pool.Ref) error
}

// The outcomes of a report.
const (
	ReportPassed  = "passed"
	ReportLate    = "late"    // after the provider's report window
	ReportRefused = "refused" // by the provider, or it accepts no reports of this kind
)

// Entry is a configured provider with its limits and prices.
type Entry struct {
	Provider    Provider
	Account     string // its account (see func Account); "" = unknown
	Concurrency int    // most orders at once over all replicas
	Callbacks   Callbacks
	Price       func(captcha.Type) float64 // of one token; below 0 = unknown, nil = 0
}

// Callbacks configures the callbacks of a provider.
type Callbacks struct {
	URL     string           // public base address of this daemon; "" = no callbacks
	Secrets []captcha.Secret // the first signs, all verify
	// Fallback is how long to wait for a callback before polling; 0 = the least
	// of 120 s, half the provider's time-out and half the token's usable life.
	Fallback time.Duration
	// Delay is the assumed age of a token when its callback first arrives.
	Delay time.Duration
}

// GuestTarget replaces the target's name in orders, logs, events and metrics of guests. No
// target can have this name.
const GuestTarget = "/solve"

// Spec describes what to order. It copies the target's definition; a later reload does not
// change it.
type Spec struct {
	Target   string // for logs and events; GuestTarget: a caller waits for this order
	Owner    string // of the target
	Identity captcha.Identity
	ID       captcha.ID // of Identity
	Depth    int
	Margin   time.Duration
	Lifetime time.Duration
	Lead     time.Duration // tokens that expire sooner do not count in the depth
	// Shortest is the shortest learned lead time; 0 = too few are known.
	Shortest        time.Duration
	PerHour, PerDay int // the target's budgets; 0 = no cap
	// Guests is the budget of all guests if the order is for a guest, else zero.
	Guests pool.Caps
	// Image is the picture of a captcha.Image, else nil. It stays in memory, and the order
	// drops it after the submit.
	Image []byte
}

func (s Spec) isGuest() bool { return s.Target == GuestTarget }

// Status is the state of a configured provider.
type Status struct {
	Name        string
	State       provider.State
	InFlight    int // orders with a permit, over all replicas
	Concurrency int // most orders at once: the file's limit, or the provider's threads if fewer
	// Silent: the callbacks of the last tasks did not arrive, so tasks are polled from the
	// start.
	Silent bool
}
