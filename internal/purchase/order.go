package purchase

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"poold/internal/pool"
)

const (
	// callTime bounds a call to the provider. It is longer than the client's own time-out,
	// because a cancelled submit has an unknown outcome.
	callTime = 20 * time.Second
	// stockTime bounds one step in Redis, with the retries of the client.
	stockTime = 3 * time.Second
	// placeMargin lets a permit outlive its order, so that after a crash a permit is counted too
	// long and never too short.
	placeMargin = 10 * time.Second
	// clockSlack is the greatest difference between the clocks of Redis nodes.
	clockSlack = 10 * time.Second
	// askAgain is the delay before a full budget is tried again: an order that the stock
	// refuses has a reservation for a moment.
	askAgain = 100 * time.Millisecond
	// currency is the number of units in which prices are stored per unit of the currency.
	currency = 1e9
)

// Order is an order in flight. The goroutine that calls collect owns it. collect may be called
// once.
type Order struct {
	pool.Ref
	spec        Spec
	slot        *Slot
	account     *account      // at which to submit and poll
	provider    string        // its name when the order was placed, under which it has its permit
	accountID   string        // of the account when the order was placed
	timeout     time.Duration // of the provider when the order was placed
	booked      []pool.Budget // shared budgets in which it may have a reservation
	refusals    int           // submits in a row that the provider had refused before the placing
	pingback    string        // callback address for the submit; "" = none, or already submitted
	hasCallback bool          // the submit had a callback address
	fallback    time.Duration // how long to wait for the callback before polling
	delay       time.Duration // age of a token when its callback arrives
	price       int64         // of the token, in billionths of the currency; below 0 = unknown
	// deadline is when the order expires in Redis, or a little earlier.
	deadline time.Time

	placed time.Time // when place returned; the latest possible time if it was adopted
	// Set by collect, in this order; already set in an adopted order.
	submitted  time.Time // just before the submit
	answered   time.Time // when the task id came
	task       string    // the provider's id
	unsolved   time.Time // latest moment at which the task is known to be unsolved
	polls      int       // by this replica
	lastCall   time.Time // start of the last poll, else of the submit
	slowPolls  int       // polls during an account fault
	stepFailed bool      // a step failed in Redis at first

	stop       context.CancelFunc     // ends collect; set while the order is in flight
	outside    atomic.Pointer[Result] // set when a callback or another replica ended the order
	submitting atomic.Bool            // a task id may become known soon
	arrived    atomic.Bool            // a callback for it arrived at this replica, valid or not
}

// providerName returns the present name of the provider.
func (o *Order) providerName() string {
	if o.account != nil {
		return o.account.Name()
	}
	return o.provider
}

// readOrder returns the order of a journal record, without account and slot.
func readOrder(r pool.Record) (*Order, error) {
	if r.Unreadable != nil {
		return nil, r.Unreadable
	}
	if _, known := ends[situation{r.State, abandoned}]; !known {
		return nil, fmt.Errorf("an order of the journal is in state %q", r.State)
	}
	f, submitted := r.Facts, r.Placed.Add(r.Unsolved)
	return &Order{
		Ref: r.Ref, provider: f.Provider, accountID: f.Account,
		timeout: milliseconds(f.TimeoutMS), hasCallback: f.Called, delay: milliseconds(f.DelayMS), price: r.Price,
		spec: Spec{
			Target: f.Target, Owner: f.Owner, ID: r.Identity, Identity: f.Identity,
			Margin: milliseconds(f.MarginMS), Lifetime: milliseconds(f.LifetimeMS),
		},
		deadline: r.Until, task: r.Task,
		placed: r.Placed, submitted: submitted, answered: submitted, unsolved: submitted,
	}, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// longestFlight returns the longest time that an order can be in flight: the provider's time-out,
// and a call before and after it.
func longestFlight(p Provider) time.Duration { return p.Timeout() + 2*callTime }

// facts returns what the journal keeps about the order for the replica that adopts it.
func (o *Order) facts() pool.Facts {
	return pool.Facts{
		Target: o.spec.Target, Owner: o.spec.Owner, Provider: o.provider, Account: o.accountID, Identity: o.spec.Identity,
		LifetimeMS: o.spec.Lifetime.Milliseconds(), MarginMS: o.spec.Margin.Milliseconds(),
		Called: o.hasCallback, DelayMS: o.delay.Milliseconds(), TimeoutMS: o.timeout.Milliseconds(),
	}
}
