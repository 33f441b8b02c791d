package purchase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
)

var (
	// ErrNoProvider means that no provider is configured.
	ErrNoProvider = errors.New("there is no provider to buy from")
	// ErrBusy means that nothing was bought, but a retry after a short delay may succeed.
	ErrBusy = errors.New("the provider takes no order now")
	// ErrDepth means that the stock has enough tokens and orders, or that buying is paused.
	ErrDepth = errors.New("the stock needs no order")
	// ErrReal means that Spec.SimulatedOnly is set, and that the slot is at a real provider.
	ErrReal = errors.New("only a simulated provider may be used for this target, and the provider is a real service")
	// ErrNotKept means that neither Redis nor the disk stored a callback.
	ErrNotKept = errors.New("neither redis nor the disk stored the callback")
)

// BudgetError reports that a budget is used up and that nothing was bought.
type BudgetError struct {
	Of         pool.Budget   // the shared budget that is used up; "" = the target's own budget
	RetryAfter time.Duration // time until the oldest counted solve leaves the budget's window
}

// Error names the budget and the time until the budget has room again.
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

// Provider contains the methods of *provider.Client that the buyer uses. Its dynamic type must be
// comparable, because SetProviders recognises an unchanged provider by comparing values.
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
	// Fault returns why the provider is down, or nil. Adopt replaces this fault.
	Fault() *provider.Fault
	Adopt(ctx context.Context, f *provider.Fault)
	// Answered returns the send time of the latest call with a valid answer; zero = no such call.
	Answered() time.Time
	// PollTurn reports whether a task may be polled at the given time.
	PollTurn(at time.Time) (ok bool, wait time.Duration)
	// Probe calls the service now to test the account.
	Probe(ctx context.Context) error

	Report(ctx context.Context, task string, t captcha.Type, good bool) error
	ReportWindow() time.Duration // how long after the solve a report is accepted
}

// Orders contains the methods of the store that the buyer uses. *pool.Orders and *permits.Permits
// together implement it.
type Orders interface {
	// Permits count the orders of all replicas at each provider. ReleaseUnplaced returns the permit of
	// an order that was not placed. Providers lists the names of all providers with permits, including
	// names that only other replicas have configured.
	Acquire(ctx context.Context, provider string, order pool.Ref, limit int, ttl, answered time.Duration) (permits.Permit, error)
	ReleaseUnplaced(ctx context.Context, provider string, order pool.Ref) error
	Release(ctx context.Context, provider string, order pool.Ref) error
	Holders(ctx context.Context, provider string) ([]pool.Ref, error)
	Providers(ctx context.Context) ([]string, error)
	InFlight(ctx context.Context, providers []string) ([]int, error)

	// A provider's standing is the information that all replicas share about the provider.
	ReportFault(ctx context.Context, provider string, f permits.Fault) error
	ReportUp(ctx context.Context, provider string, sent time.Duration) error
	ReportRefusal(ctx context.Context, provider string) error
	ReportAccepted(ctx context.Context, provider string) error
	Standing(ctx context.Context, provider string) (permits.Standing, error)
	ProbeNow(ctx context.Context, provider string) (waited bool, err error)

	// Orders of many identities share the following budgets. Refund is a no-op if the order has no
	// reservation.
	Book(ctx context.Context, of pool.Budget, order pool.Ref, caps pool.Caps, notAfter pool.RedisTime) (wait time.Duration, err error)
	Refund(ctx context.Context, of pool.Budget, order pool.Ref) error
	Booked(ctx context.Context, of pool.Budget) (hour, day int, err error)

	// The journal stores each order in Redis beside its identity's tokens.
	Place(ctx context.Context, o pool.Order) (pool.Placing, error)
	MarkSubmitting(ctx context.Context, order pool.Ref) (ok bool, err error)
	ClaimTask(ctx context.Context, provider, task string, order pool.Ref, ttl time.Duration) (ok bool, err error)
	Submitted(ctx context.Context, order pool.Ref, task string) (ok bool, err error)
	Unknown(ctx context.Context, order pool.Ref, hold time.Duration) (ok bool, err error)

	// These methods find and end orders. FindAll omits orders that do not exist. If an order is
	// missing, Remembers reports whether the store still knows that it ended.
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
	ReportLate    = "late"    // the provider's report window had ended
	ReportRefused = "refused" // not passed on, for example because the provider rejected the report
)

// Entry is a configured provider with its limits and prices.
type Entry struct {
	Provider    Provider
	Account     string // id of the account, from the function Account; "" = unknown
	Concurrency int    // maximum number of orders in flight over all replicas
	Simulated   bool   // the provider is simulated: it costs nothing, and no site accepts its tokens
	Callbacks   Callbacks
	Price       func(captcha.Type) float64 // price of one token; negative = unknown; a nil function means a price of 0
}

// Callbacks configures the callbacks of a provider.
type Callbacks struct {
	URL     string           // public base address of this daemon; "" = no callbacks
	Secrets []captcha.Secret // the first secret signs new addresses; every secret is accepted
	// Fallback is how long to wait for a callback before polling; 0 = the shortest of 120 s, half the
	// provider's time-out and half the token's usable life.
	Fallback time.Duration
	// Delay is the assumed age of a token when its first callback arrives.
	Delay time.Duration
}

// address returns the callback address of an order, or "" if there are no callbacks. The signature
// is part of the path, because services append a query to the address.
func (c Callbacks) address(provider string, order pool.Ref) string {
	if c.URL == "" || len(c.Secrets) == 0 {
		return ""
	}
	return strings.Join([]string{c.URL, "callback", provider, order.String(), signature.Of(c.Secrets[0], provider, order.String())}, "/")
}

// GuestTarget is the target name of guests in orders, logs, events and metrics. No target in the
// file can have this name.
const GuestTarget = "/solve"

// Spec describes an order to place. A Spec copies the target's definition, so a later reload does
// not change the order.
type Spec struct {
	Target   string // name for logs and events; GuestTarget if the order is for a guest
	Owner    string // owner of the target
	Identity captcha.Identity
	ID       captcha.ID // hash of Identity
	Depth    int
	Margin   time.Duration
	Lifetime time.Duration
	Lead     time.Duration // lead time; tokens that expire within this time do not count toward the depth
	// Shortest is the shortest lead time that poold has learned; 0 = too few lead times are known.
	Shortest        time.Duration
	PerHour, PerDay int  // the target's budgets; 0 = no limit
	SimulatedOnly   bool // Buy refuses a slot at a real provider
	// Guests limits the orders of all guests together; zero unless the order is for a guest.
	Guests pool.Caps
	// Image contains the bytes of the picture for the type captcha.Image, and is nil for other types.
	// The buyer keeps the picture only in memory and only until the submit.
	Image []byte
}

func (s Spec) isGuest() bool { return s.Target == GuestTarget }

// Status is the state of a configured provider.
type Status struct {
	Name        string
	State       provider.State
	InFlight    int // number of orders with a permit, over all replicas
	Concurrency int // maximum number of orders in flight: the lower of the file's limit and the provider's limit
	// Silent means that the callbacks of the latest tasks did not arrive, so new tasks are polled
	// without waiting for a callback.
	Silent bool
}
