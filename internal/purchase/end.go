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

// news is what is heard of an order, from whomever.
type news string

const (
	solved        news = "solved"         // the provider has a token
	failed        news = "failed"         // the provider has none, or the order's time is over
	badParameters news = "bad parameters" // the provider finds fault with the target's parameters
	unavailable   news = "unavailable"    // the provider's capacity, or the account, allows no order now
	unanswered    news = "unanswered"     // nobody can say whether the submit was accepted
	uncollected   news = "uncollected"    // its time is over, and the last polls were not answered
	stopped       news = "stopped"        // this replica stops
	abandoned     news = "abandoned"      // the replica that worked on it is gone
)

// script is what is done about the order in Redis, in words for the log.
type script string

const (
	settle  script = "landing a token"                  // order out, token in
	remove  script = "removing an order"                // order out
	keep    script = "noting an order of unknown fate"  // it counts until its time is over; a callback may still end it
	leave   script = "leaving an order to others"       // it stays in the journal, for any replica
	collect script = "collecting an order of a replica" // it goes on here
)

// situation is how far an order got, and what is heard of it then.
type situation struct {
	state pool.State
	news  news
}

// end is what becomes of an order.
type end struct {
	script   script
	refund   bool    // nothing was bought: the budgets get their part back
	outcome  Outcome // told to who asked for the order; "" where nobody is left to be told
	lost     bool    // the service may have solved it: it counts as lost, and its price is spent
	hopeless bool    // Result.Hopeless
	attempt  pool.Attempt
}

// ends are all ends of an order, whoever brings the news: the answer to the submit, a
// poll, a callback, a stop or an adoption. A callback proves that the order was bought,
// whatever the journal says of it.
var ends = map[situation]end{
	// Before its submit.
	{pool.Intent, stopped}:   {script: remove, refund: true, outcome: Interrupted},
	{pool.Intent, abandoned}: {script: remove, refund: true},

	// The answer to its submit. What the provider refused in so many words was not bought.
	{pool.Submitting, badParameters}: {script: remove, refund: true, outcome: Refused, hopeless: true, attempt: pool.Hopeless},
	// The service refused the submit for a reason of its own, or with a code that the
	// profile does not know.
	{pool.Submitting, failed}:      {script: remove, refund: true, outcome: Failed, attempt: pool.Declined},
	{pool.Submitting, unavailable}: {script: remove, refund: true, outcome: Busy},
	{pool.Submitting, unanswered}:  {script: keep, outcome: Lost},
	{pool.Submitting, abandoned}:   {script: keep},
	{pool.Unknown, abandoned}:      {script: leave},

	// Its task is known, or a callback came.
	{pool.Bought, solved}:        {script: settle, outcome: Solved},
	{pool.Bought, failed}:        {script: remove, outcome: Failed, attempt: pool.Unsolved},
	{pool.Bought, badParameters}: {script: remove, outcome: Failed, hopeless: true, attempt: pool.Hopeless},
	{pool.Bought, uncollected}:   {script: remove, lost: true, outcome: Lost},
	{pool.Bought, stopped}:       {script: leave, outcome: Interrupted},
	{pool.Bought, abandoned}:     {script: collect},
}

// endOf looks one up. Each that can occur is there; a test goes through them.
func endOf(state pool.State, n news) end {
	e, ok := ends[situation{state, n}]
	if !ok {
		panic(fmt.Sprintf("an order in state %q cannot be %s", state, n))
	}
	return e
}

// notice is news with what belongs to it.
type notice struct {
	news     news
	err      error             // what the provider said; nil where it solved the task
	code     string            // of err; "" = none
	solution provider.Solution // where it solved the task
	took     time.Duration     // from the submit to the news
	age      time.Duration     // how old the token is at the most, when the news comes
	callback bool              // said by one
}

// refused goes before the code of a parameter fault, when replicas tell each other
// how an order ended.
const refused = "refused "

// message is what replicas tell each other of news that a callback brought.
func (n notice) message() string {
	switch n.news {
	case solved:
		return pool.Solved
	case badParameters:
		return refused + n.code
	}
	return n.code
}

// readMessage is the inverse of message.
func readMessage(word string) notice {
	if word == pool.Solved {
		return notice{news: solved, callback: true}
	}
	code, params := strings.CutPrefix(word, refused)
	return calledBack(code, params)
}

// calledBack is the news of a callback with an error code; refused: it finds fault with
// the target's parameters.
func calledBack(code string, refused bool) notice {
	n := notice{news: failed, err: errors.New(code), code: code, callback: true}
	if refused {
		n.news = badParameters
	}
	return n
}

// repeated is the end of a task that brought a text which the stock knows.
func (b *base) repeated(o *Order, n notice) (end, notice) {
	b.log.Warn("a task brought no new token", "target", o.spec.Target, "provider", o.providerName(), "task", o.task, "err", pool.RepeatedText)
	return withoutToken(n)
}

func withoutToken(n notice) (end, notice) {
	n.news, n.err, n.code = failed, errors.New(pool.RepeatedText), pool.RepeatedText
	return endOf(pool.Bought, n.news), n
}

// result is what the order comes to for who asked for it.
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

// answer is what the caller is told that lacks the order then. A target's callers wait
// for the next order instead.
func (e end) answer(o *Order, n notice) *pool.FailedError {
	if e.outcome != Failed || !o.spec.isGuest() {
		return nil
	}
	return &pool.FailedError{Reason: e.result(o, n).Err.Error(), Refused: e.hopeless}
}

// solvedAfter is how long after its submit a task can have been solved at the earliest;
// below 0 where the service kept the token ready, and says so.
func (n *notice) solvedAfter() time.Duration {
	if n.solution.Dated {
		return n.solution.SinceSubmit
	}
	return max(0, n.took-n.age)
}

// carryOut runs the script of an end that takes the order out of the stock. call names
// this end, so that it may be sent again.
func (b *base) carryOut(ctx context.Context, o *Order, e end, n notice, call string) (pool.Ending, error) {
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
		f.Tell = n.message()
	}
	return b.stock.Fail(ctx, f)
}

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

// Outcome is how an order ended.
type Outcome string

const (
	Solved Outcome = "solved"
	// Failed: the task brought no token, or its submit was refused for a reason that
	// nobody knows.
	Failed Outcome = "failed"
	// Lost: nobody can say what became of the order. It counts as bought.
	Lost    Outcome = "lost"
	Refused Outcome = "refused" // the target's parameters; not bought
	Busy    Outcome = "busy"    // capacity or account; not bought
	// Elsewhere: another replica ended the order or took it over; this one cannot say
	// how it ended.
	Elsewhere Outcome = "elsewhere"
	// Interrupted: a stop, or Redis, came before the order had ended. It was taken
	// back if it had not been submitted, and stays in the journal if it had.
	Interrupted Outcome = "interrupted"
)

// sentences say for people what an order came to.
var sentences = map[Outcome]string{
	Failed:  "the task brought no token",
	Lost:    "the order's fate is unknown",
	Refused: "the provider finds fault with the parameters",
	Busy:    "the provider can take no order now",
}

// Result is how an order ended, and why.
type Result struct {
	Outcome Outcome
	// Hopeless: the provider finds fault with the target's parameters, at the submit
	// or later, so that another order with the same ones is in vain.
	Hopeless bool
	Err      error // nil where Solved
}

// finish ends the work on an order with a result that came from elsewhere. The first
// one counts.
func (o *Order) finish(r Result) {
	o.outside.CompareAndSwap(nil, &r)
	o.stop()
}
