package purchase

import (
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// Event tells how an order ended at this replica.
type Event struct {
	Order    pool.Ref         // its id, and its identity's
	Identity captcha.Identity // without its proxy
	Target   string           // that it was placed for
	Owner    string           // of the target
	Provider string           // that was asked last
	Task     string           // the provider's id; "" = none is known
	Outcome  Outcome          // Solved, Failed, Lost, Refused or Busy
	Code     string           // the provider's error code; "" = none
	Price    int64            // of the token, in billionths of the currency; below 0 = unknown
	// Placed, Submitted and Solved are on this process' clock; zero = it did not come
	// to that. Those of an adopted order are as late as they can have been.
	Placed, Submitted, Solved time.Time
	Polls                     int  // by this replica
	Callback                  bool // a callback ended it
}

// Observer is told what happens. It must not block.
type Observer interface {
	// Ended is told of orders that ended here: not of those that ended at another
	// replica or were interrupted.
	Ended(e Event)
	Callback(outcome string)
	DeadLetter(outcome string)
	Report(provider, outcome string)
}

// ended tells the observer of an order's end.
func (b *base) ended(o *Order, outcome Outcome, n notice) {
	e := Event{
		Order: o.Ref, Identity: o.spec.Identity, Target: o.spec.Target, Owner: o.spec.Owner,
		Provider: o.providerName(), Task: o.task, Outcome: outcome, Code: n.code, Price: o.price,
		Placed: o.placed, Submitted: o.submitted, Polls: o.polls, Callback: n.callback,
	}
	e.Identity.Proxy = ""
	if outcome == Solved {
		e.Solved = o.submitted.Add(n.took)
	}
	b.observe.Ended(e)
}

// codeOf is the provider's code of an error; "" where it has none.
func codeOf(err error) string {
	if fault := (*provider.Error)(nil); errors.As(err, &fault) {
		return fault.Code
	}
	return ""
}
