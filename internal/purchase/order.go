package purchase

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	// callTime bounds a call to the provider. It is longer than the client's
	// own deadline and only there for the case that this one fails, because
	// cutting a submit makes an order of unknown fate.
	callTime = 20 * time.Second
	// stockTime bounds one step in Redis, with the re-sends below it.
	stockTime = 3 * time.Second
	// placeMargin lets a place at the provider outlive its order, so that a
	// crash counts too many rather than too few.
	placeMargin = 10 * time.Second
	// clockSlack is how far the clocks of Redis nodes may be apart for buying.
	clockSlack = 10 * time.Second
	// askAgain is when a full budget is asked once more: an order that the depth
	// sentence refuses holds its part for a moment.
	askAgain = 100 * time.Millisecond
	// currency is how many of the units that prices are kept in make one.
	currency = 1e9
)

// Order is one purchase under way. It belongs to the goroutine that calls collect,
// which may be called once.
type Order struct {
	pool.Ref
	spec      Spec
	slot      *Slot
	account   *account      // whom to ask
	provider  string        // the name under which it was placed, and holds its place
	accountID string        // the provider's, as it was then
	timeout   time.Duration // the provider's, as it was at the placing
	booked    []pool.Budget // that it may stand in, of those that orders share
	refusals  int           // submits in a row that the provider had refused at the placing
	pingback  string        // where the provider shall call; "" = nowhere, or it was told before
	called    bool          // the provider was told to call
	fallback  time.Duration // how long to wait for that before polling
	delay     time.Duration // how old a token is when the call comes
	price     int64         // of the token, in billionths of the currency; below 0 = unknown
	// deadline is when Redis forgets the order, or a little before.
	deadline time.Time

	placed time.Time // when place was answered; an adopted one's, as late as it can be
	// Set by collect, in this order; an adopted order has them already.
	submitted time.Time // just before the submit
	answered  time.Time // when the task id came
	task      string    // the provider's id
	unsolved  time.Time // latest moment at which the task is known to be unsolved
	polls     int       // so far, here
	asked     time.Time // of the last poll, else of the submit
	slowly    int       // polls that were sent although an account fault lasts
	hampered  bool      // Redis did not take a step at once

	stop       context.CancelFunc     // ends collect; set while the buyer holds the order
	outside    atomic.Pointer[Result] // an end that a callback or another replica brought
	submitting atomic.Bool            // a task may be about to become known
	arrived    atomic.Bool            // a callback about it came to this replica, of use or not
}

// providerName is the name of who is asked about the order, now.
func (o *Order) providerName() string {
	if o.account != nil {
		return o.account.Name()
	}
	return o.provider
}

// readOrder makes an order of its record in the journal. It has neither account nor slot.
func readOrder(r pool.Record) (*Order, error) {
	f, err := readFacts(r.Facts)
	if err != nil {
		return nil, err
	}
	if _, known := ends[situation{r.State, abandoned}]; !known {
		return nil, fmt.Errorf("reading what the journal knows of an order: its state is %q", r.State)
	}
	submitted := r.Placed.Add(r.Unsolved)
	if f.Unpriced {
		r.Price = pool.PriceUnknown
	}
	return &Order{
		Ref: r.Ref, provider: f.Provider, accountID: f.Account,
		timeout: milliseconds(f.Timeout), called: f.Called, delay: milliseconds(f.Delay), price: r.Price,
		spec: Spec{
			Target: f.Target, Owner: f.Owner, ID: r.Identity, Identity: f.Identity,
			Margin: milliseconds(f.Margin), Lifetime: milliseconds(f.Lifetime),
		},
		deadline: r.Until, task: r.Task,
		placed: r.Placed, submitted: submitted, answered: submitted, unsolved: submitted,
	}, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// lifetime is how long an order may be under way: the provider's own limit,
// and a call before and after it.
func lifetime(p Solver) time.Duration { return p.Timeout() + 2*callTime }

// facts are the part of an order's journal line that purchase reads: for the replica that adopts
// the order or gets its callback. Type and Enterprise are outside of the identity, where older
// versions read them.
type facts struct {
	Target     string           `json:"target"`
	Owner      string           `json:"owner,omitempty"`
	Provider   string           `json:"provider"`
	Account    string           `json:"account,omitempty"` // the provider's, under whatever name
	Identity   captcha.Identity `json:"identity,omitzero"` // without its proxy
	Type       captcha.Type     `json:"type"`
	Enterprise bool             `json:"enterprise,omitempty"`
	Lifetime   int64            `json:"lifetime_ms"`
	Margin     int64            `json:"margin_ms"`
	Called     bool             `json:"called,omitempty"` // the provider was asked to call back
	Delay      int64            `json:"callback_delay_ms"`
	Timeout    int64            `json:"timeout_ms"`
	Unpriced   bool             `json:"unpriced,omitempty"` // the price is unknown, not 0
}

// readFacts reads the facts of this version or an older one.
func readFacts(text string) (f facts, err error) {
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("reading what the journal knows of an order: %w", err)
	}
	f.Identity.Type, f.Identity.Enterprise = f.Type, f.Enterprise
	return f, nil
}

// About is the part of an order's facts that the history keeps.
type About struct {
	Target, Owner, Provider string
	Identity                captcha.Identity // without its proxy
	Unpriced                bool             // the price of its token is unknown
}

// ReadAbout reads the facts of an order.
func ReadAbout(text string) (About, error) {
	f, err := readFacts(text)
	return About{Target: f.Target, Owner: f.Owner, Provider: f.Provider, Identity: f.Identity, Unpriced: f.Unpriced}, err
}

func (o *Order) facts() string {
	f := facts{
		Target: o.spec.Target, Owner: o.spec.Owner, Provider: o.provider, Account: o.accountID,
		Identity: o.spec.Identity, Type: o.spec.Identity.Type, Enterprise: o.spec.Identity.Enterprise,
		Lifetime: o.spec.Lifetime.Milliseconds(), Margin: o.spec.Margin.Milliseconds(),
		Called: o.called, Delay: o.delay.Milliseconds(), Timeout: o.timeout.Milliseconds(), Unpriced: o.price < 0,
	}
	f.Identity.Type, f.Identity.Enterprise = "", false // outside alone
	text, _ := json.Marshal(f)                         // strings and numbers alone
	return string(text)
}
