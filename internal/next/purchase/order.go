package purchase

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/provider"
)

// Purchase is an order as the history has it: the row of its purchase and of its end. Times are on Redis'
// clock; zero = it did not happen.
type Purchase struct {
	Order     string           `json:"order"`
	ID        captcha.ID       `json:"id"`
	Identity  captcha.Identity `json:"identity"` // without its proxy
	Target    string           `json:"target"`
	Owner     string           `json:"owner,omitempty"`
	Provider  string           `json:"provider"`
	Task      string           `json:"task,omitempty"`
	Status    string           `json:"status,omitempty"` // open or ended
	Outcome   pool.How         `json:"outcome,omitempty"`
	Code      string           `json:"code,omitempty"` // of the provider's error
	Price     int64            `json:"price"`          // billionths of the currency; -1 = unknown
	Placed    time.Time        `json:"placed,omitzero"`
	Submitted time.Time        `json:"submitted,omitzero"`
	Solved    time.Time        `json:"solved,omitzero"`
	Polls     int              `json:"polls,omitempty"` // by the replica that ended it
	Callback  bool             `json:"callback,omitempty"`
	EndedBy   string           `json:"ended_by,omitempty"` // submit, poll, callback, deadline, stop or adoption
	Choice    string           `json:"choice,omitempty"`   // how the provider was chosen
}

// facts is what the journal keeps of an order: all that an adopter or a callback needs.
type facts struct {
	Purchase

	Fingerprint string        `json:"fingerprint"` // of the account and key that submit the order
	Lifetime    time.Duration `json:"lifetime"`
	Margin      time.Duration `json:"margin"`
	Shortest    time.Duration `json:"shortest,omitempty"`
	Timeout     time.Duration `json:"timeout"`
	Called      bool          `json:"called,omitempty"` // the submit has a callback address
	Delay       time.Duration `json:"delay,omitempty"`  // greatest age of a token when its callback arrives
	Fallback    time.Duration `json:"fallback,omitempty"`
	Guest       bool          `json:"guest,omitempty"`
	Budgets     []pool.Budget `json:"budgets,omitempty"`
}

// order is an order that runs at this replica. Its goroutine owns the fields, except as noted.
type order struct {
	journal  pool.Order
	facts    facts
	identity captcha.Identity // with its proxy, unless the order was adopted
	image    []byte
	account  *account // that gets the submit; nil = the order was adopted
	pingback string

	at        time.Time // of the placing, on Redis' clock
	placed    time.Time // of the placing, or a little later, on this process' clock, as all that follow
	submitted time.Time // just before the submit
	answered  time.Time // when the task id arrived
	unsolved  time.Time // the task was unsolved then
	waits     time.Time // since when the goroutine waits for the task; guarded by Buyer.mu

	owned bool // this replica owns the order in Redis; guarded by Buyer.mu

	stop      context.CancelFunc
	elsewhere atomic.Bool // a callback or another replica has the order
	stranded  atomic.Bool // no account of the file or of the memory knows the task
}

// readOrder returns an order of the journal.
func readOrder(e *pool.Entry) (*order, error) {
	o := &order{journal: e.Order, at: e.Placed, placed: time.Now().Add(-e.Age)}
	if err := json.Unmarshal([]byte(e.Facts), &o.facts); err != nil {
		return o, fmt.Errorf("reading the facts of an order: %w", err)
	}
	f := &o.facts
	f.Placed, f.Submitted, f.Task = e.Placed, e.Submitted, e.Task
	o.identity, o.journal.Budgets, o.journal.Key = f.Identity, f.Budgets, brakeKey(f.Provider, f.Fingerprint)
	o.submitted = o.placed
	if !e.Submitted.IsZero() {
		o.submitted = o.placed.Add(max(0, e.Submitted.Sub(e.Placed)))
	}
	o.answered, o.unsolved = o.submitted, o.submitted
	return o, nil
}

// deadline returns the time at which the order ends in Redis, or a little later.
func (o *order) deadline() time.Time { return o.placed.Add(life(o.facts.Timeout)) }

// onRedis converts a time of this process to Redis' clock.
func (o *order) onRedis(at time.Time) time.Time {
	return o.at.Add(at.Sub(o.placed).Truncate(time.Millisecond))
}

// trigger is what happens to an order.
type trigger string

const (
	stopped     trigger = "stopped"              // this replica stops, or cannot begin the submit
	adopted     trigger = "adopted"              // its replica died, or lost it
	refused     trigger = "refused"              // the service refused the submit
	rejected    trigger = "rejected"             // the service rejects the parameters
	busy        trigger = "busy"                 // the service has no capacity
	faulty      trigger = "faulty"               // the account has a fault
	unanswered  trigger = "unanswered"           // the submit may have been accepted
	solved      trigger = "solved"               // there is a token
	failed      trigger = "failed"               // the task ended without a token
	timedOut    trigger = "timed out"            // the last poll was answered "not ready"
	uncollected trigger = "timed out unanswered" // the last poll had no answer
	late        trigger = "late"                 // its deadline has passed
)

// situation is the state of an order and what happens to it.
type situation struct {
	state   pool.State
	trigger trigger
}

// ending says what follows. Without how, the order does not end.
type ending struct {
	how     pool.How
	unknown bool // the journal notes that the outcome of the submit is unknown
	anyone  bool // also a replica that does not own the order ends it
	answers bool // the caller of an identity without a target learns it, and nothing is bought again
	says    string
}

// ends is the table of states and ends. After a callback the state is Bought, whatever the journal says: the
// callback proves the purchase. What is not in the table leaves the order as it is: a bought order stays in
// the journal at a stop and is polled after an adoption, and an unknown one waits for its deadline.
var ends = map[situation]ending{
	{pool.Placed, stopped}:     {how: pool.Stopped},
	{pool.Placed, adopted}:     {how: pool.Stopped},
	{pool.Placed, late}:        {how: pool.Late, anyone: true},
	{pool.Submitting, stopped}: {how: pool.Stopped}, // only the process that did not submit knows it
	{pool.Submitting, adopted}: {unknown: true},
	{pool.Submitting, late}:    {how: pool.Late, anyone: true, answers: true, says: outcomeUnknown},

	{pool.Submitting, refused}:    {how: pool.Refused, answers: true, says: "the provider refused the task"},
	{pool.Submitting, rejected}:   {how: pool.Hopeless, answers: true, says: "the provider rejects the parameters"},
	{pool.Submitting, busy}:       {how: pool.Busy, says: "the provider takes no order now"},
	{pool.Submitting, faulty}:     {how: pool.Fault, says: "the provider takes no order from this account"},
	{pool.Submitting, unanswered}: {unknown: true},

	{pool.Unknown, late}: {how: pool.Late, anyone: true, answers: true, says: outcomeUnknown},

	{pool.Bought, solved}:      {how: pool.Solved, anyone: true, answers: true, says: "the provider sold this token before"},
	{pool.Bought, failed}:      {how: pool.Failed, answers: true, says: "the task brought no token"},
	{pool.Bought, rejected}:    {how: pool.Hopeless, answers: true, says: "the provider rejects the parameters"},
	{pool.Bought, timedOut}:    {how: pool.Failed, answers: true, says: "the task brought no token"},
	{pool.Bought, uncollected}: {how: pool.Lost, answers: true, says: outcomeUnknown},
	{pool.Bought, late}:        {how: pool.Late, anyone: true, answers: true, says: outcomeUnknown},
}

const outcomeUnknown = "the order's outcome is unknown"

// CodeTimeout is the code of an order that was not solved in time.
const CodeTimeout = "timeout"

// news is a trigger with its details.
type news struct {
	trigger  trigger
	by       string // Purchase.EndedBy
	err      error
	code     string
	delay    time.Duration // that a busy service asks for
	solution provider.Solution
	born     time.Duration // from the placing to the earliest time of the solve
	lead     time.Duration // from the submit to the token; 0 = unknown
	solvedAt time.Time     // when the token was noticed, on this process' clock
	callback bool
}

// end carries out what the table says. It returns the end, pool.Gone or pool.Other; "" = the order goes on.
func (b *Buyer) end(ctx context.Context, o *order, state pool.State, n news) (how string, err error) {
	e := ends[situation{state, n.trigger}]
	if e.how == "" {
		if e.unknown {
			_, err = b.pool.Bought(ctx, &o.journal, "", b.row(o))
			b.setOwned(o, false)
		}
		return "", err
	}
	f, reason := &o.facts, e.says
	if reason != "" {
		reason = f.Provider + ": " + reason
	}
	if n.err != nil {
		reason += ": " + n.err.Error()
	}
	f.Status, f.Outcome, f.EndedBy, f.Code, f.Callback = "ended", e.how, n.by, n.code, n.callback
	if e.how == pool.Late {
		f.Outcome = pool.Lost
	}
	if n.trigger == solved {
		f.Solved = o.onRedis(n.solvedAt)
	}
	row := ""
	if state != pool.Placed && n.trigger != stopped {
		row = b.row(o)
	}
	end := pool.End{
		How: e.how, Anyone: e.anyone || n.callback, Provider: f.Provider, UserAgent: n.solution.UserAgent, Value: n.solution.Token,
		Task: f.Task, Repeats: f.Identity.Type == captcha.Image, Born: n.born, Lifetime: f.Lifetime, Margin: f.Margin, Lead: n.lead,
		Reason: reason, Row: row,
	}
	if f.Guest && e.answers {
		end.Answer = &pool.FailedError{Refused: e.how == pool.Hopeless, Reason: reason}
	}
	how, next, err := b.pool.End(ctx, &o.journal, &end)
	if err != nil {
		return "", err
	}
	b.setOwned(o, false)
	if next != "" && b.Turn != nil {
		b.Turn(next)
	}
	switch how {
	case pool.Gone, pool.Other, string(pool.Stopped):
		return how, nil
	case pool.Repeated:
		b.log.Warn("a task brought no new token", "target", f.Target, "provider", f.Provider, "task", f.Task)
	}
	f.Outcome = pool.How(how)
	b.observer.Ended(f.Purchase)
	return how, nil
}

// row returns the row of an order for the history, or "" without a sink.
func (b *Buyer) row(o *order) string {
	if !b.sink {
		return ""
	}
	p := o.facts.Purchase
	if p.Status == "" {
		p.Status = "open"
	}
	text, _ := json.Marshal(p) // of strings, numbers and times: no error is possible
	return string(text)
}
