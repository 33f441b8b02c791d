package purchase

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/crash"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/choice"
)

const (
	// slowBegin limits how long Begin may take. If it took longer, the process may have been frozen, and another replica
	// may own the order, so the order is not submitted.
	slowBegin = 2 * time.Second
	// slowPoll is the time between two polls of a task while the service refuses the account's polls.
	slowPoll = time.Minute
	// lookAgain is how often a waiting order checks whether its account has a new key.
	lookAgain = 3 * time.Second

	outcomeUnknown = "gave no outcome"

	// CodeTimeout is the code of an order that was not solved in time.
	CodeTimeout = "TIMEOUT"
	// CodeUnreadable is the code of an order whose solution poold cannot read.
	CodeUnreadable = provider.Unreadable
)

// Purchase describes an order for the history, when it is bought and when it ends. Times are on Redis' clock; zero
// means that the event did not happen.
type Purchase struct {
	Order     string           `json:"order"`
	ID        captcha.ID       `json:"id"`
	Identity  captcha.Identity `json:"identity"` // without its proxy
	Target    string           `json:"target"`
	Owner     string           `json:"owner,omitempty"`
	Provider  string           `json:"provider"`
	Task      string           `json:"task,omitempty"`
	Outcome   pool.Outcome     `json:"outcome,omitempty"`
	Code      string           `json:"code,omitempty"` // of the provider's error
	Price     int64            `json:"price"`          // billionths of the currency; -1 = unknown
	Placed    time.Time        `json:"placed,omitzero"`
	Submitted time.Time        `json:"submitted,omitzero"`
	Solved    time.Time        `json:"solved,omitzero"` // the earliest time at which it can have been solved
	Polls     int              `json:"polls,omitempty"` // by the replica that ended it
	Callback  bool             `json:"callback,omitempty"`
	EndedBy   string           `json:"ended_by,omitempty"` // submit, poll, callback or deadline
	Choice    string           `json:"choice,omitempty"`   // how the provider was chosen
}

// facts is what the journal keeps of an order: all that an adopter or a callback needs.
type facts struct {
	Purchase

	Fingerprint string        `json:"fingerprint"` // of the account and key that submit the order
	Lifetime    time.Duration `json:"lifetime"`
	Margin      time.Duration `json:"margin"`
	Shortest    time.Duration `json:"shortest,omitempty"` // see Spec
	Usual       time.Duration `json:"usual,omitempty"`
	Timeout     time.Duration `json:"timeout"`
	HasCallback bool          `json:"has_callback,omitempty"` // the submit has a callback address
	Delay       time.Duration `json:"delay,omitempty"`        // greatest age of a token when its callback arrives
	Fallback    time.Duration `json:"fallback,omitempty"`
	Guest       bool          `json:"guest,omitempty"`
	Budgets     []pool.Budget `json:"budgets,omitempty"`
}

// order is an order that runs at this replica. Only the order's goroutine uses the fields, except as noted.
type order struct {
	journal     pool.Order
	facts       facts
	identity    captcha.Identity // with its proxy, unless the order was adopted
	image       []byte
	account     *account // that gets the submit; nil = the order was adopted
	callbackURL string

	at        time.Time // of the placing, on Redis' clock
	placed    time.Time // of the placing, or a little later, on this process' clock, as all that follow
	submitted time.Time // just before the submit
	answered  time.Time // when the task id arrived
	unsolved  time.Time // the task was unsolved then

	stop      context.CancelFunc
	owned     atomic.Bool // this replica owns the order in Redis
	waits     atomic.Bool // for the end of the task
	elsewhere atomic.Bool // a callback or another replica has the order
}

// readOrder returns an order of the journal. If the order's facts in the journal cannot be read, they stay empty. A
// submitted order then ends as lost.
func readOrder(e *pool.JournalEntry) *order {
	o := &order{journal: e.Order, at: e.Placed, placed: time.Now().Add(-e.Age)}
	f := &o.facts
	_ = json.Unmarshal([]byte(e.Facts), f)
	f.Order, f.ID, f.Placed, f.Submitted, f.Task = e.Name, e.ID, e.Placed, e.Submitted, e.Task
	o.identity, o.journal.Budgets, o.journal.Key = f.Identity, f.Budgets, brakeKey(f.Provider, f.Fingerprint)
	o.submitted = o.placed
	if !e.Submitted.IsZero() {
		o.submitted = o.placed.Add(max(0, e.Submitted.Sub(e.Placed)))
	}
	o.answered, o.unsolved = o.submitted, o.submitted
	return o
}

// onRedis converts a time of this process to Redis' clock.
func (o *order) onRedis(at time.Time) time.Time {
	return o.at.Add(at.Sub(o.placed).Truncate(time.Millisecond))
}

// trigger is what may end an order.
type trigger string

const (
	stopped       trigger = "stopped"        // this replica stops, or cannot begin the submit
	adopted       trigger = "adopted"        // its replica died, or lost it
	badParameters trigger = "bad_parameters" // the service rejects the parameters
	busy          trigger = "busy"           // the service has no capacity
	fault         trigger = "fault"          // the account has a fault
	unanswered    trigger = "unanswered"     // the submit may have been accepted
	solved        trigger = "solved"         // there is a token
	failed        trigger = "failed"         // the service refused the task, or it ended without a token
	uncollected   trigger = "uncollected"    // its time was over, and the last poll had no answer
	late          trigger = "late"           // its deadline has passed
)

// situation is a state of an order, and an event that happens in this state.
type situation struct {
	state   pool.State
	trigger trigger
}

// ending describes what an event does to an order. Without an outcome, the order does not end.
type ending struct {
	outcome pool.Outcome
	unknown bool // the journal notes that the outcome of the submit is unknown
	anyone  bool // also a replica that does not own the order ends it
	answers bool // a guest's caller gets this answer, and nothing is bought again
	says    string
}

// ends says how an order ends in each situation. For a callback the state is Bought, whatever the journal says, because
// a callback proves the purchase. A situation that is not in the table does not end the order. For instance, a bought
// order stays in the journal when this replica stops, and an unknown order waits for its deadline.
var ends = map[situation]ending{
	{pool.Placed, adopted}:     {outcome: pool.Stopped},
	{pool.Placed, late}:        {outcome: pool.Late, anyone: true},
	{pool.Submitting, stopped}: {outcome: pool.Stopped}, // this replica knows that it sent no submit; no other can know
	{pool.Submitting, adopted}: {unknown: true},
	{pool.Submitting, late}:    {outcome: pool.Late, anyone: true, answers: true, says: outcomeUnknown},

	{pool.Submitting, failed}:        {outcome: pool.Refused, answers: true, says: "refused the task"},
	{pool.Submitting, badParameters}: {outcome: pool.BadParameters, answers: true, says: "refuses the parameters"},
	{pool.Submitting, busy}:          {outcome: pool.Busy, says: "takes no order now"},
	{pool.Submitting, fault}:         {outcome: pool.Fault, says: "takes no order from this account"},
	{pool.Submitting, unanswered}:    {unknown: true},

	{pool.Unknown, late}: {outcome: pool.Late, anyone: true, answers: true, says: outcomeUnknown},

	// The text in `says` is used here only if the script end returns repeated.
	{pool.Bought, solved}:        {outcome: pool.Solved, anyone: true, answers: true, says: "sold this token before"},
	{pool.Bought, failed}:        {outcome: pool.Failed, answers: true, says: "brought no token"},
	{pool.Bought, badParameters}: {outcome: pool.BadParameters, answers: true, says: "refuses the parameters"},
	{pool.Bought, uncollected}:   {outcome: pool.Lost, answers: true, says: outcomeUnknown},
	{pool.Bought, late}:          {outcome: pool.Late, anyone: true, answers: true, says: outcomeUnknown},
}

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

// end ends an order as the table `ends` says. It returns the outcome, or pool.Gone or pool.Other if another replica or
// a callback has the order. The result "" means that the order goes on.
func (b *Buyer) end(ctx context.Context, o *order, state pool.State, n news) (outcome pool.Outcome, err error) {
	e := ends[situation{state, n.trigger}]
	if e.outcome == "" {
		if e.unknown {
			o.journal.UnknownLife = o.facts.Timeout
			_, err = b.c.Pool.Unanswered(ctx, &o.journal, row(o, b.c.Active))
			o.owned.Store(false)
		}
		return "", err
	}
	f, reason := &o.facts, e.says
	if reason != "" {
		reason = "provider " + f.Provider + " " + reason
	}
	if n.err != nil {
		reason += ": " + n.err.Error()
	}
	f.Outcome, f.EndedBy, f.Code, f.Callback = e.outcome, n.by, n.code, n.callback
	if e.outcome == pool.Late {
		f.Outcome = pool.Lost
	}
	if n.trigger == solved {
		f.Solved = o.at.Add(n.born.Truncate(time.Millisecond))
	}
	submitted := state != pool.Placed && n.trigger != stopped
	end := pool.End{
		Outcome: e.outcome, Anyone: e.anyone || n.callback, Provider: f.Provider, Task: f.Task, Margin: f.Margin,
		Lifetime: f.Lifetime, Extra: n.solution.Extra, Value: n.solution.Token, BornAfter: n.born, Lead: n.lead,
		Repeats: f.Identity.Type == captcha.Image, Reason: reason,
		Costs: n.code == CodeTimeout || n.code == CodeUnreadable, Row: row(o, b.c.Sink && submitted),
	}
	if expires := n.solution.Expires; !expires.IsZero() {
		end.Lifetime = min(end.Lifetime, expires.Sub(o.at.Add(n.born)))
	}
	if providers := len(b.accounts.list()); providers > 1 {
		end.Type = f.Identity.Type
		if f.Choice != choice.Ordered && f.Choice != choice.Probe {
			end.Others = providers - 1
		}
	}
	if f.Guest && e.answers {
		end.Answer = &pool.FailedError{BadParameters: e.outcome == pool.BadParameters, Reason: reason}
	}
	outcome, next, err := b.c.Pool.End(ctx, &o.journal, &end)
	if err != nil {
		return "", err
	}
	o.owned.Store(false)
	if next != "" && b.Turn != nil {
		b.Turn(next)
	}
	switch outcome {
	case pool.Gone, pool.Other, pool.Stopped:
		return outcome, nil
	case pool.Repeated:
		b.c.Log.Warn("a task brought no new token", "target", f.Target, "provider", f.Provider, "order", f.Order,
			"task", f.Task)
	case pool.Failed:
		if f.Code == CodeTimeout {
			b.c.Log.Warn("an order was not solved in time, and its price counts", "target", f.Target, "provider", f.Provider,
				"order", f.Order, "task", f.Task)
		}
	case pool.Lost:
		b.c.Log.Warn("an order is lost: its outcome is unknown, and its price counts",
			"target", f.Target, "provider", f.Provider, "order", f.Order, "task", f.Task)
	}
	f.Outcome = outcome
	var took time.Duration
	if n.trigger == solved {
		took = n.solvedAt.Sub(o.submitted)
		b.noteSolved(ctx, f)
	}
	b.c.Observer.Ended(f.Purchase, took)
	return outcome, nil
}

// row returns the row of an order for the history, or "" if the history does not want it.
func row(o *order, wanted bool) string {
	if !wanted {
		return ""
	}
	text, _ := json.Marshal(o.facts.Purchase) // of strings, numbers and times: no error is possible
	return string(text)
}

// persist repeats an important step of an order until Redis has executed it, because Redis may be away, full or
// read-only. It gives up at the order's deadline, or when persistFor has passed after the end of ctx.
func (b *Buyer) persist(ctx context.Context, o *order,
	step func(context.Context) (pool.Outcome, error)) (outcome pool.Outcome, err error) {
	limited, cancel := context.WithDeadline(context.WithoutCancel(ctx), o.placed.Add(b.life(o.facts.Timeout)))
	defer cancel()
	unhook := context.AfterFunc(ctx, func() {
		_ = backoff.Sleep(limited, persistFor)
		cancel()
	})
	defer unhook()
	for {
		if outcome, err = step(limited); err == nil || backoff.Sleep(limited, backoff.Around(stepEvery, 0.5)) != nil {
			return outcome, err
		}
	}
}

// run carries an order from the given state to its end. It returns before the end if ctx ends, if the outcome of the
// submit is unknown, or if another replica or a callback has taken the order.
func (b *Buyer) run(ctx context.Context, o *order, state pool.State) {
	if state == pool.Placed {
		if n := b.submit(ctx, o); n.trigger != "" {
			b.finish(ctx, o, pool.Submitting, n)
			return
		}
		if o.facts.Task == "" {
			return
		}
		if s, is := o.account.SolvedAtOnce(o.facts.Task); is {
			took := o.answered.Sub(o.submitted)
			b.finish(ctx, o, pool.Bought, news{trigger: solved, by: "submit", solution: s, born: o.submitted.Sub(o.placed),
				lead: took, solvedAt: o.answered})
			return
		}
	}
	n := b.await(ctx, o)
	if o.elsewhere.Load() || n.trigger == stopped {
		return
	}
	outcome := b.finish(ctx, o, pool.Bought, n)
	crash.At("ended")
	polled := o.facts.HasCallback && n.solvedAt.Sub(o.submitted) >= o.facts.Fallback
	if a, _ := b.accounts.of(&o.facts); a != nil && polled && outcome == pool.Solved && !o.elsewhere.Load() {
		b.noteCallback(a, false)
	}
}

// finish ends an order, and repeats the attempt until Redis has stored the end.
func (b *Buyer) finish(ctx context.Context, o *order, state pool.State, n news) (outcome pool.Outcome) {
	outcome, err := b.persist(ctx, o, func(ctx context.Context) (pool.Outcome, error) { return b.end(ctx, o, state, n) })
	if err != nil && !o.elsewhere.Load() {
		b.c.Log.Warn("the end of an order is not stored: it is resumed when Redis answers", "target", o.facts.Target,
			"provider", o.facts.Provider, "order", o.facts.Order, "task", o.facts.Task, "err", err)
	}
	if err == nil && n.trigger == busy && n.delay > time.Second { // the script end brakes for one second
		b.setBrake(ctx, o.journal.Key, string(pool.Busy), n.err.Error(), n.delay, 0)
	}
	return outcome
}

// submit submits an order and stores its task. If the submit failed, the result describes the failure. If the result is
// empty and the order has no task, this replica must leave the order alone: another replica has it, its task could not
// be stored, or it has ended.
func (b *Buyer) submit(ctx context.Context, o *order) news {
	f, nonce := &o.facts, rand.Text()
	for begun := false; !begun; {
		if ctx.Err() != nil {
			return news{trigger: stopped}
		}
		asked := time.Now()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*slowBegin)
		mine, err := b.c.Pool.Begin(limited, f.Order, nonce)
		cancel()
		if err != nil {
			return news{trigger: stopped, err: err}
		}
		if !mine {
			return news{}
		}
		begun = time.Since(asked) < slowBegin
	}
	if ctx.Err() != nil {
		return news{trigger: stopped}
	}
	request := provider.Submission{Identity: o.identity, Image: o.image, CallbackURL: o.callbackURL}
	o.image = nil
	asked := time.Now()
	o.submitted, o.unsolved, f.Submitted = asked, asked, o.onRedis(asked)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.c.CallTime)
	task, err := o.account.Submit(limited, request)
	cancel()
	o.answered = time.Now()
	crash.At("submitted")
	b.note(ctx, o.account, exchange{order: f.Order, asked: asked, err: err})
	if err != nil {
		return newsOf("submit", err)
	}
	f.Task = task
	outcome, err := b.persist(ctx, o, func(ctx context.Context) (pool.Outcome, error) {
		return b.c.Pool.Bought(ctx, &o.journal, task, row(o, b.c.Active))
	})
	switch {
	case err != nil:
		b.c.Log.Warn("the task of a submit is not stored: only a callback can bring its token", "target", f.Target,
			"provider", f.Provider, "order", f.Order, "task", task, "err", err)
		f.Task = ""
	case outcome == pool.Gone: // a callback was faster, or the deadline was
		b.c.Log.Debug("the order of a submit has ended before its answer", "target", f.Target, "provider", f.Provider,
			"task", task)
		f.Task = ""
	case outcome == pool.RepeatedTask:
		b.c.Log.Error("a submit was answered with the task of another order", "target", f.Target, "provider", f.Provider,
			"task", task)
		f.Task = ""
		return news{trigger: unanswered}
	}
	crash.At("bought")
	return news{}
}

// triggers maps the class of a failed call to an event of the order. It does not apply to submits whose outcome is
// unknown.
var triggers = map[provider.Class]trigger{
	provider.Parameters: badParameters, provider.Task: failed, provider.Account: fault, provider.Capacity: busy,
}

// newsOf converts the error of a call to an event of the order.
func newsOf(by string, err error) news {
	n := news{trigger: unanswered, by: by, err: err}
	var fault *provider.Error
	if errors.As(err, &fault) {
		n.code, n.delay = fault.Code, fault.Delay
		if !fault.Unknown {
			n.trigger = cmp.Or(triggers[fault.Class], unanswered)
		}
	}
	return n
}

// await polls the task of an order until the task ends or the order times out. A callback for the order ends ctx.
func (b *Buyer) await(ctx context.Context, o *order) news {
	o.waits.Store(true)
	defer o.waits.Store(false) // before its end, so that compare does not take it for another's
	f, giveUp := &o.facts, o.submitted.Add(o.facts.Timeout)
	next, last := b.firstPoll(o), o.submitted
	for {
		// The last poll of a task is at its timeout.
		if backoff.Sleep(ctx, min(time.Until(next), time.Until(giveUp))) != nil {
			return news{trigger: stopped}
		}
		now := time.Now()
		over := !now.Before(giveUp)
		a, former := b.accounts.of(f)
		if a == nil {
			if over {
				return news{trigger: uncollected, by: "poll", err: errors.New("no provider has the account of the task")}
			}
			if _, told := b.missed.LoadOrStore(f.Provider, true); !told {
				b.c.Log.Error("paid tasks cannot be collected: list the account that they were bought at; "+
					"until they expire, they count as in flight",
					"provider", f.Provider, "until", giveUp.UTC().Truncate(time.Second))
			}
			next = now.Add(lookAgain)
			continue
		}
		// If an account fault affects polls too, each task is polled once a minute, and at its timeout.
		if due := last.Add(slowPoll); !over && now.Before(due) && b.accounts.pollsSlowly(a) {
			next = now.Add(min(due.Sub(now), lookAgain))
			continue
		}
		f.Polls, last = f.Polls+1, now
		solution, err := b.poll(ctx, o, a, former)
		if err == nil {
			at := time.Now()
			n := news{trigger: solved, by: "poll", solution: solution, solvedAt: at, lead: at.Sub(o.submitted)}
			n.born = o.unsolved.Sub(o.placed)
			return n
		}
		if ctx.Err() != nil {
			return news{trigger: stopped}
		}
		n := newsOf("poll", err)
		if n.trigger == failed || n.trigger == badParameters {
			return n
		}
		answered := errors.Is(err, provider.ErrNotReady)
		if answered {
			o.unsolved = now
			b.noteUnsolved(ctx, a, o)
		}
		if over {
			n.trigger, n.err = uncollected, fmt.Errorf("not solved within %v: %w", f.Timeout, err)
			if answered {
				n.trigger, n.code = failed, CodeTimeout
			}
			return n
		}
		_, interval := a.Pace(f.Identity.Type)
		wait := backoff.Around(interval, 0.1)
		if n.trigger == busy {
			wait = max(wait, n.delay)
		}
		next = time.Now().Add(wait)
	}
}

// firstPoll returns the time of the first poll. If a callback is expected, the poll waits for the fallback time. Else
// it comes one interval before the shortest recent lead time, but not before the provider's usual first poll. An
// earlier poll would find no token, and a later one would make the token's age less certain.
func (b *Buyer) firstPoll(o *order) time.Time {
	a, _ := b.accounts.of(&o.facts)
	if a == nil {
		return time.Now()
	}
	wait, interval := a.Pace(o.facts.Identity.Type)
	if _, _, silent := b.accounts.terms(a); o.facts.HasCallback && !silent {
		return o.submitted.Add(o.facts.Fallback)
	}
	return o.answered.Add(max(wait, o.facts.Shortest-interval))
}

// poll polls the task with the account's present key. If the service refuses this key or does not know the task, poll
// tries the key that submitted the order. A fault of that former key does not brake the present key.
func (b *Buyer) poll(ctx context.Context, o *order, a, former *account) (provider.Solution, error) {
	limited, cancel := context.WithTimeout(ctx, b.c.CallTime)
	defer cancel()
	asked := time.Now()
	solution, err := a.Poll(limited, o.facts.Task, o.identity)
	b.note(ctx, a, exchange{poll: true, order: o.facts.Order, asked: asked, err: err})
	var fault *provider.Error
	if former == nil || !errors.As(err, &fault) || fault.Class != provider.Account && fault.Class != provider.Task {
		return solution, err
	}
	again, cancelAgain := context.WithTimeout(ctx, b.c.CallTime)
	defer cancelAgain()
	other, otherErr := former.Poll(again, o.facts.Task, o.identity)
	if otherErr == nil || errors.Is(otherErr, provider.ErrNotReady) {
		return other, otherErr
	}
	return solution, err
}
