package purchase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// trigger is the cause of an order's end or of a change of its state.
type trigger string

const (
	solved        trigger = "solved"         // the provider has a token
	failed        trigger = "failed"         // the provider has no token, or the order timed out
	badParameters trigger = "bad parameters" // the provider rejects the target's parameters
	unavailable   trigger = "unavailable"    // the provider has no capacity, or the account has a fault
	unanswered    trigger = "unanswered"     // the provider may have accepted the submit
	uncollected   trigger = "uncollected"    // the order timed out, and its last polls had no answer
	stopped       trigger = "stopped"        // this replica stops
	abandoned     trigger = "abandoned"      // the replica that ran the order is dead
)

// A script is the name of a change in Redis that ends an order. The log shows this name.
type script string

const (
	settle  script = "landing a token"                     // removes the order and adds the token
	remove  script = "removing an order"                   // removes the order
	keep    script = "keeping an order of unknown outcome" // the order counts until it expires; a callback can end the order
	leave   script = "leaving an order to other replicas"  // the order stays in the journal
	collect script = "collecting an order of a replica"    // this replica continues the order
)

// situation is the state of an order together with a trigger.
type situation struct {
	state   pool.State
	trigger trigger
}

// end describes how an order ends.
type end struct {
	script   script
	refund   bool    // nothing was bought: the budget reservations are returned
	outcome  Outcome // returned to the caller of Buy; "" if the order was adopted
	lost     bool    // the service may have solved the task, so the order counts as lost and its price counts as spent
	hopeless bool    // Result.Hopeless
	attempt  pool.Attempt
}

// ends contains the end for each pair of state and trigger. The trigger may come from the answer to
// the submit, a poll, a callback, a stop or an adoption. After a callback the state is Bought, even if
// the journal has another state, because the callback proves the purchase.
var ends = map[situation]end{
	// The order was not submitted.
	{pool.Intent, stopped}:   {script: remove, refund: true, outcome: Interrupted},
	{pool.Intent, abandoned}: {script: remove, refund: true},

	// The submit was sent. An order that the provider explicitly refused was not bought.
	{pool.Submitting, badParameters}: {script: remove, refund: true, outcome: Refused, hopeless: true, attempt: pool.Hopeless},
	// The service refused the submit for another reason, or with an unknown code.
	{pool.Submitting, failed}:      {script: remove, refund: true, outcome: Failed, attempt: pool.Declined},
	{pool.Submitting, unavailable}: {script: remove, refund: true, outcome: Busy},
	{pool.Submitting, unanswered}:  {script: keep, outcome: Lost},
	{pool.Submitting, abandoned}:   {script: keep},
	{pool.Unknown, abandoned}:      {script: leave},

	// The task id is known, or a callback arrived.
	{pool.Bought, solved}:        {script: settle, outcome: Solved},
	{pool.Bought, failed}:        {script: remove, outcome: Failed, attempt: pool.Unsolved},
	{pool.Bought, badParameters}: {script: remove, outcome: Failed, hopeless: true, attempt: pool.Hopeless},
	{pool.Bought, uncollected}:   {script: remove, lost: true, outcome: Lost},
	{pool.Bought, stopped}:       {script: leave, outcome: Interrupted},
	{pool.Bought, abandoned}:     {script: collect},
}

// endOf returns the end for a situation. It panics if the table has no end for the situation. A test
// tries every situation that can occur.
func endOf(state pool.State, n trigger) end {
	e, ok := ends[situation{state, n}]
	if !ok {
		panic(fmt.Sprintf("an order in state %q cannot be %s", state, n))
	}
	return e
}

// notice is a trigger with its details.
type notice struct {
	trigger  trigger
	err      error             // the provider's error; nil if the trigger is solved
	code     string            // the provider's code of err; "" = none
	solution provider.Solution // set if the task is solved
	took     time.Duration     // time from the submit to the trigger
	age      time.Duration     // greatest possible age of the token when the trigger occurred
	callback bool              // the trigger is a callback
}

// refusedPrefix precedes the code of a parameter fault in messages between replicas.
const refusedPrefix = "refused "

// message encodes the notice of a callback as a text for other replicas.
func (n notice) message() string {
	switch n.trigger {
	case solved:
		return pool.Solved
	case badParameters:
		return refusedPrefix + n.code
	}
	return n.code
}

// readMessage decodes a text that notice.message returned.
func readMessage(word string) notice {
	if word == pool.Solved {
		return notice{trigger: solved, callback: true}
	}
	code, params := strings.CutPrefix(word, refusedPrefix)
	return calledBack(code, params)
}

// calledBack returns the notice of a callback with an error code. The argument refused means that
// the service rejects the target's parameters.
func calledBack(code string, refused bool) notice {
	n := notice{trigger: failed, err: errors.New(code), code: code, callback: true}
	if refused {
		n.trigger = badParameters
	}
	return n
}

// endRepeated logs that the order's token had been in the stock before, and returns the end of an
// order without a token.
func (b *base) endRepeated(o *Order, n notice) (end, notice) {
	b.log.Warn("a task brought no new token", "target", o.spec.Target, "provider", o.providerName(), "task", o.task, "err", pool.RepeatedText)
	return withoutToken(n)
}

func withoutToken(n notice) (end, notice) {
	n.trigger, n.err, n.code = failed, errors.New(pool.RepeatedText), pool.RepeatedText
	return endOf(pool.Bought, n.trigger), n
}

// result returns the result for the caller of Buy.
func (e end) result(o *Order, n notice) Result {
	switch {
	case e.outcome == Solved:
		return Result{Outcome: Solved}
	case e.outcome == Failed && e.hopeless:
		n.err = fmt.Errorf("%s: %w", sentences[Refused], n.err)
	}
	return Result{
		Outcome: e.outcome, Hopeless: e.hopeless,
		Err: fmt.Errorf("%s: %s: %w", o.providerName(), sentences[e.outcome], n.err),
	}
}

// answer returns the error for the caller that waits for a guest's order. For a target
// it returns nil, because the callers of a target wait for the target's next order.
func (e end) answer(o *Order, n notice) *pool.FailedError {
	if e.outcome != Failed || !o.spec.isGuest() {
		return nil
	}
	return &pool.FailedError{Reason: e.result(o, n).Err.Error(), Refused: e.hopeless}
}

// solvedAfter returns the shortest possible time from the submit to the solve. The result is negative
// if the service says that the token is older than the submit.
func (n *notice) solvedAfter() time.Duration {
	if n.solution.Dated {
		return n.solution.SinceSubmit
	}
	return max(0, n.took-n.age)
}

// carryOut runs the script of the end e, which must remove the order. All retries pass the same
// value of the argument call, so that Redis recognises a retry.
func (b *base) carryOut(ctx context.Context, o *Order, e end, n notice, call string) (pool.EndResult, error) {
	if e.script == settle {
		repeated, as := withoutToken(n)
		return b.stock.Settle(ctx, pool.Landing{
			Ref: o.Ref, Call: call, Provider: o.providerName(), Task: o.task, Callback: n.callback,
			Value: n.solution.Token, Repeats: o.spec.Identity.Type == captcha.Image, UserAgent: n.solution.UserAgent,
			SincePlaced: o.submitted.Sub(o.placed) + n.solvedAfter(), Lifetime: o.spec.Lifetime, Lead: n.took,
			Submitted: o.submitted.Sub(o.placed), Polls: o.polls,
			Answer: repeated.answer(o, as), Margin: o.spec.Margin,
		})
	}
	f := pool.Failure{
		Ref: o.Ref, Call: call, Bought: !e.refund, Lost: e.lost, Late: n.code == pool.CodeTimeout, Callback: n.callback,
		Answer: e.answer(o, n), Margin: o.spec.Margin,
		Asked: &pool.Asked{
			Provider: o.providerName(), Task: o.task, Code: n.code, Submitted: o.submitted.Sub(o.placed), Polls: o.polls,
		},
	}
	if e.attempt != "" {
		f.Attempt, f.Reason, f.Guest = e.attempt, e.result(o, n).Err.Error(), o.spec.isGuest()
	}
	if n.callback {
		f.Message = n.message()
	}
	return b.stock.Fail(ctx, f)
}

// Event is the end of an order at this replica.
type Event struct {
	Order    pool.Ref         // ids of the order and of its identity
	Identity captcha.Identity // without its proxy
	Target   string           // target for which the order was placed
	Owner    string           // owner of the target
	Provider string           // last provider that was called
	Task     string           // the provider's id of the task; "" if it is unknown
	Outcome  Outcome          // Solved, Failed, Lost, Refused or Busy
	Code     string           // the provider's error code; "" = none
	Price    int64            // price of the token in billionths of the currency; negative = unknown
	// Placed, Submitted and Solved are times on this process' clock. Zero means that the step did not
	// happen. In an adopted order, each is the latest possible time.
	Placed, Submitted, Solved time.Time
	Polls                     int  // polls by this replica
	Callback                  bool // a callback ended the order
}

// Observer receives events. Its methods must not block.
type Observer interface {
	// Ended receives each order that ends at this replica. It does not receive interrupted orders or
	// orders that end at another replica.
	Ended(e Event)
	Callback(outcome string)
	DeadLetter(outcome string)
	Report(provider, outcome string)
	// BudgetUsedUp reports that a budget refused an order of the target; "" = the target's own budget.
	BudgetUsedUp(of pool.Budget, target string)
}

// reportEnd reports the end of an order to the observer.
func (b *base) reportEnd(o *Order, outcome Outcome, n notice) {
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

// codeOf returns the provider's code of an error, or "".
func codeOf(err error) string {
	if fault := (*provider.Error)(nil); errors.As(err, &fault) {
		return fault.Code
	}
	return ""
}

// Outcome says how an order ended.
type Outcome string

// The outcomes of an order.
const (
	// Solved means that the token is in the stock.
	Solved Outcome = "solved"
	// Failed means that the task ended without a token. It also means that the provider refused the
	// submit for a reason other than the parameters, the capacity or the account.
	Failed Outcome = "failed"
	// Lost means that the outcome of the order is unknown. The order counts as bought.
	Lost    Outcome = "lost"
	Refused Outcome = "refused" // the provider rejects the parameters; nothing was bought
	Busy    Outcome = "busy"    // the provider has no capacity, or the account has a fault; nothing was bought
	// Elsewhere means that another replica ended the order or took it over.
	Elsewhere Outcome = "elsewhere"
	// Interrupted means that a stop or an outage of Redis interrupted the order. An order without a
	// submit was removed; a submitted order stays in the journal.
	Interrupted Outcome = "interrupted"
)

// The map sentences contains texts about outcomes, for operators and callers.
var sentences = map[Outcome]string{
	Failed:  "the task brought no token",
	Lost:    "the order's outcome is unknown",
	Refused: "the provider rejects the parameters",
	Busy:    "the provider takes no order now",
}

// Result says how an order ended, and why.
type Result struct {
	Outcome Outcome
	// Hopeless means that the provider rejects the target's parameters, so another order with the same
	// parameters would fail too.
	Hopeless bool
	Err      error // nil if Solved
}

// finish stops the goroutine of an order that a callback or another replica ended. Only the first call
// of finish has an effect.
func (o *Order) finish(r Result) {
	o.outside.CompareAndSwap(nil, &r)
	o.stop()
}
