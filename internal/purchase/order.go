package purchase

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"poold/internal/pool"
)

const (
	// callTime limits a call to the provider. It exceeds the client's own time-out, because a submit
	// that is cancelled earlier would have an unknown outcome.
	callTime = 20 * time.Second
	// stockTime limits one step in Redis, including the retries of the Redis client.
	stockTime = 3 * time.Second
	// placeMargin is how much longer a permit lives than its order, so that no permit expires too
	// early after a crash.
	placeMargin = 10 * time.Second
	// clockSlack is the greatest difference between the clocks of Redis nodes.
	clockSlack = 10 * time.Second
	// budgetRetry is the delay before the second attempt at a full budget. If the stock has just
	// refused another order, that order's reservation soon ends.
	budgetRetry = 100 * time.Millisecond
	// A stored price is an integer: the configured price multiplied by the constant currency.
	currency = 1e9
)

// Order is an order in flight. The goroutine that calls collect owns the order. The method collect
// must be called at most once.
type Order struct {
	pool.Ref
	spec        Spec
	slot        *Slot
	account     *account      // account at which to submit and poll
	provider    string        // name of the provider when the order was placed; the permit is under this name
	accountID   string        // id of the account when the order was placed
	choice      Choice        // how the provider was chosen
	timeout     time.Duration // time-out of the provider when the order was placed
	booked      []pool.Budget // shared budgets in which the order may have a reservation
	refusals    int           // consecutive submits that the provider had refused when the order was placed
	pingback    string        // callback address for the submit; "" = none, or the order is already submitted
	hasCallback bool          // the submit had a callback address
	fallback    time.Duration // how long to wait for the callback before polling
	delay       time.Duration // assumed age of a token when its callback arrives
	price       int64         // price of the token in billionths of the currency; negative = unknown
	// deadline is the time at which the order expires in Redis, or a little earlier.
	deadline time.Time

	placed time.Time // time of the placement; for an adopted order the latest possible time
	// The method collect sets the following fields from top to bottom. In an adopted order,
	// submitted, answered, task and unsolved are already set.
	submitted  time.Time // time just before the submit
	answered   time.Time // time at which the task id arrived
	task       string    // the provider's id of the task
	unsolved   time.Time // latest time at which the task was still unsolved
	polls      int       // polls by this replica
	lastCall   time.Time // start of the last poll, or of the submit if there was no poll
	slowPolls  int       // polls during the current account fault
	stepFailed bool      // at least one step failed in Redis

	stop       context.CancelFunc     // ends the method collect; set while the order is in flight
	outside    atomic.Pointer[Result] // set when a callback or another replica ended the order
	submitting atomic.Bool            // the submit is in progress, so the task id is not known yet
	arrived    atomic.Bool            // a callback for the order arrived at this replica, valid or not
}

// providerName returns the current name of the provider.
func (o *Order) providerName() string {
	if o.account != nil {
		return o.account.Name()
	}
	return o.provider
}

// readOrder returns the order that a journal record describes, without account and slot.
func readOrder(r pool.Record) (*Order, error) {
	if r.Unreadable != nil {
		return nil, r.Unreadable
	}
	if _, known := ends[situation{r.State, abandoned}]; !known {
		return nil, fmt.Errorf("an order of the journal is in state %q", r.State)
	}
	f, submitted := r.Facts, r.Placed.Add(r.Unsolved)
	return &Order{
		Ref: r.Ref, provider: f.Provider, accountID: f.Account, choice: Choice(f.Choice),
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

// longestFlight returns the longest time that an order can be in flight: the provider's time-out and
// the time of two calls.
func longestFlight(p Provider) time.Duration { return p.Timeout() + 2*callTime }

// facts returns what the journal stores for a replica that may adopt the order.
func (o *Order) facts() pool.Facts {
	return pool.Facts{
		Target: o.spec.Target, Owner: o.spec.Owner, Provider: o.provider, Account: o.accountID, Identity: o.spec.Identity,
		LifetimeMS: o.spec.Lifetime.Milliseconds(), MarginMS: o.spec.Margin.Milliseconds(),
		Called: o.hasCallback, DelayMS: o.delay.Milliseconds(), TimeoutMS: o.timeout.Milliseconds(), Choice: string(o.choice),
	}
}
