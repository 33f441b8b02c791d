package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"poold/internal/compat"
	"poold/internal/provider/wire"
	"poold/internal/status"
	"poold/internal/targets"
)

// maxCompatibleBody is the most that a call of the compatible endpoints may have.
const maxCompatibleBody = 1 << 20

// clientKey is how long a key is that clients of solving services can be given.
const clientKey = 32

// ClientTasks are the tasks of the compatible endpoints; *compat.Tasks implements it.
type ClientTasks interface {
	Submit(ctx context.Context, task compat.Task, terms compat.Terms) (number string, err error)
	Open(ctx context.Context, number, caller string) (bool, error)
	Poll(ctx context.Context, number, caller string, terms func(compat.Task) (compat.Terms, error)) (compat.Result, error)
	Report(ctx context.Context, number, caller string) (state compat.TaskState, token string, err error)
}

// compatible are the routes that speak the solving services' own protocols: what they have
// in common. compatlegacy.go and compattasks.go have the protocols, compatterms.go what a
// caller may have.
type compatible struct {
	deliveries

	tasks     ClientTasks
	near      *compat.NearMisses
	supply    supply
	reports   *reports
	wrongKeys *wrongKeys
	status    *status.Collector
	stopping  *atomic.Bool // of the Server
	submits   submits
	bodies    *bodies
	log       *slog.Logger
}

// fault is a code of the wire, in the legacy protocol's words, and why for people.
type fault struct{ code, why string }

func (f *fault) Error() string { return f.code + ": " + f.why }

// notDone refuses what would have no effect: a client would wait for it.
func notDone(what string) error {
	return &fault{wire.CodeBadParams, what + " is not done here"}
}

// unreadable is the fault of a call that is not one of its protocol.
func unreadable(bad string) error {
	return &fault{bad, "the call is not well-formed, mixes the protocols, or gives a field twice"}
}

// said is what either protocol says for an error.
type said struct{ legacy, tasks, why string }

// saying finds the words for an error; what nobody expected is logged.
func (p *compatible) saying(ctx context.Context, c *call, err error) said {
	var bad *fault
	if errors.As(err, &bad) {
		return said{bad.code, wire.TasksCode(bad.code), bad.why}
	}
	cause := compat.CauseOf(err)
	if cause == compat.Broken {
		p.log.ErrorContext(ctx, "answering a client's call", slog.String("route", c.route.path), slog.Any("err", err))
	}
	return said{cause.Legacy(), cause.Tasks(), cause.Why()}
}

// read reads a call and has decode make sense of it. The room that its body takes is the
// caller's to release, even if there is an error.
func (p *compatible) read(r *http.Request, c *call, decode func(wire.Request)) (taken *room, err error) {
	body, taken, err := p.bodies.read(r, c, maxCompatibleBody)
	if err != nil {
		return taken, err
	}
	sent := wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}
	if ended := taken.decode(r.Context(), func() { decode(sent) }); ended != nil {
		return taken, errHungUp
	}
	return taken, nil
}

// authenticate finds out who asks, by the key that stands in the call. Where the file has
// no keys the caller is on this machine, and any text serves that clients take for a key.
// bad is the code of a call that could not be read, whose key may be missing for that.
func (p *compatible) authenticate(r *http.Request, c *call, key, bad string) error {
	if key == "" && bad != "" {
		return unreadable(bad)
	}
	if c.caller == nil {
		owner := c.access.owner(key)
		switch {
		case key == "":
			return compat.OddKey
		case owner == nil && p.wrongKeys.count(r.RemoteAddr, c.began) > 0:
			return compat.TooManyKeys
		case owner == nil:
			return compat.WrongKey
		case !owner.may(targets.ScopeToken):
			return compat.NotEntitled
		}
		c.caller = owner
	} else if len(key) != clientKey {
		return compat.OddKey
	}
	return nil
}

// submit makes a task of an order and writes the reply with its number. The task holds the
// room that the call takes until it ends.
func (p *compatible) submit(w http.ResponseWriter, r *http.Request, c *call, o wire.Order, taken *room, reply func(number string) wire.Reply) error {
	if limiter := c.caller.limiter; limiter != nil && overRate(limiter, c.began) > 0 {
		return compat.TooFast
	}
	switch {
	case p.stopping.Load():
		return compat.Stopping
	case o.Bad == wire.CodeNoMethod, o.Bad == wire.CodeNotSupported:
		return compat.NotSupported
	case o.Bad != "":
		return &fault{o.Bad, "the parameters are missing, doubled or not well-formed"}
	case o.Pingback != "":
		return notDone("a pingback")
	case len(o.Undone) > 0:
		return notDone("the parameter " + shown(o.Undone[0]))
	}
	terms, err := p.submitTerms(c, o)
	if err != nil {
		return err
	}
	if taken.resize(int64(len(o.Image))) != nil {
		return compat.NoSlot
	}
	terms.Hold = taken.hold
	task := compat.Task{Caller: c.caller.stable, Identity: terms.Take.ID, Type: o.Identity.Type}
	key := submitKey{task.Caller, task.Identity}
	s := p.submits.begin(r.Context(), key)
	err = p.number(r.Context(), s, task, terms)
	if err == nil {
		err = writeNumber(w, r, reply(s.number))
	}
	p.submits.end(key, s, err != nil && s.number != "")
	return err
}

// number gives a submit its task: that of an earlier submit whose answer was lost, while it
// can bring a token, else a new one. A task whose client hung up has its number too.
func (p *compatible) number(ctx context.Context, s *submit, task compat.Task, terms compat.Terms) error {
	if s.number != "" {
		open, err := p.tasks.Open(ctx, s.number, task.Caller)
		if err != nil || open {
			return err
		}
	}
	var err error
	s.number, err = p.tasks.Submit(ctx, task, terms)
	return err
}

// writeNumber writes the reply to a submit, and fails with errHungUp if a part of it
// certainly did not reach the client.
func writeNumber(w http.ResponseWriter, r *http.Request, reply wire.Reply) error {
	writeReply(w, reply)
	if err := http.NewResponseController(w).Flush(); err != nil || r.Context().Err() != nil {
		return errHungUp
	}
	return nil
}

// shown is a parameter's name if it can be shown.
func shown(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '|' }
	if len(name) > 40 || strings.ContainsFunc(name, odd) {
		return "of another name"
	}
	return name
}

// poll asks for a task's token.
func (p *compatible) poll(r *http.Request, c *call, id string) (compat.Result, error) {
	n, ok := wire.TaskNumber(id)
	if !ok {
		return compat.Result{}, compat.BadID
	}
	if n < 1e10 || n >= 1e11 || id[0] == '0' {
		return compat.Result{}, compat.UnknownTask
	}
	return p.tasks.Poll(r.Context(), id, c.caller.stable, func(t compat.Task) (compat.Terms, error) { return p.pollTerms(c, t) })
}

// report counts what a caller says of the token of a task.
func (p *compatible) report(r *http.Request, c *call, id string, verdict wire.Verdict) error {
	if _, ok := wire.TaskNumber(id); !ok {
		return compat.BadID
	}
	state, token, err := p.tasks.Report(r.Context(), id, c.caller.stable)
	switch {
	case err != nil:
		return err
	case verdict.Fits != nil && !verdict.Fits(state.Type):
		return compat.UnknownTask // to this call there is no such task
	}
	outcome := outcomeRejected
	if verdict.Good {
		outcome = outcomeAccepted
	}
	c.target = c.access.byID[state.Identity]
	named := solveID{token, state.Identity, state.Type}
	return p.reports.aboutSolve(r, c, named, auditID(c, named), outcome)
}

// balance is what is left of the overall budget, in solves; where there is none, what the
// first service says that tells its balance; else how many tasks may be under way at once.
func (p *compatible) balance(ctx context.Context, c *call) (float64, error) {
	now := p.status.Snapshot(ctx).Document
	switch budget := now.Budget; {
	case budget != nil:
		return float64(max(0, budget.Limit-budget.Used)), nil
	case c.access.set.Budget.PerDay > 0: // it was not read yet
		return 0, compat.StoreDown
	}
	for _, provider := range now.Providers {
		if provider.Balance != nil {
			return *provider.Balance, nil
		}
	}
	return float64(threads(now).Threads), nil
}

// threads sums the providers up.
func threads(now *status.Document) wire.ThreadsAnswer {
	a := wire.ThreadsAnswer{Status: 1}
	for _, provider := range now.Providers {
		a.Threads += provider.Concurrency
		a.Working += provider.InFlight
	}
	a.Free = max(0, a.Threads-a.Working)
	return a
}

// tell writes a solved task's answer.
func (p *compatible) tell(w http.ResponseWriter, r *http.Request, c *call, got *compat.Result, reply wire.Reply) error {
	return p.deliver(w, r, c, p.delivery(c, got), []string{reply.Type}, reply.Body)
}

// delivery is a solved task's token on its way; its client may ask for it again.
func (p *compatible) delivery(c *call, got *compat.Result) *delivery {
	c.target = c.access.byID[got.Identity]
	return &delivery{
		token: &got.Token, id: auditID(c, solveID{got.Token.ID, got.Identity, got.Type}), kind: got.Type, repeatable: true,
	}
}

// auditID is what the audit calls a token, as the answers of the other routes do: they tell
// a target's and a guest's apart.
func auditID(c *call, id solveID) string {
	if c.target != nil {
		return id.token
	}
	return id.String()
}

// writeReply writes an answer that has no token.
func writeReply(w http.ResponseWriter, reply wire.Reply) { respond(w, reply.Type, reply.Body) }

// unixSeconds is a moment in whole seconds, not after it; where up is set, not before it.
func unixSeconds(at time.Time, up bool) int64 {
	if up {
		at = at.Add(time.Second - time.Nanosecond)
	}
	return at.Unix()
}
