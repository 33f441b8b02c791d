package compatapi

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"poold/internal/compat"
	"poold/internal/httpapi/base"
	"poold/internal/pool"
	"poold/internal/provider/wire"
	"poold/internal/status"
	"poold/internal/targets"
)

// maxCompatibleBody limits the body of a call to the compatible endpoints, in bytes.
const maxCompatibleBody = 1 << 20

// clientKey is the length of the keys that the clients of solving services accept.
const clientKey = 32

// ClientTasks contains the operations on the tasks of the compatible endpoints; *compat.Tasks
// implements them.
type ClientTasks interface {
	Submit(ctx context.Context, task compat.Task, terms compat.Terms) (number string, err error)
	Poll(ctx context.Context, number, caller string, terms func(compat.Task) (compat.Terms, error)) (compat.Result, error)
	Report(ctx context.Context, number, caller string) (task compat.Task, order string, err error)
}

// Routes contains the handlers of both protocols. Use New.
type Routes struct {
	*base.Delivery

	Tasks     ClientTasks
	WrongKeys *base.WrongKeys
	Status    *status.Collector
	Stopping  *atomic.Bool // the flag of the Server
	Pictures  *base.Pictures

	refusals, ignored base.Tries // they limit the log lines per caller
}

// New completes Routes and returns them.
func New(p *Routes) *Routes {
	p.refusals, p.ignored = base.NewTries(1, refusalEvery), base.NewTries(1, ignoredEvery)
	return p
}

type call struct {
	key, bad string // bad: error code if the call could not be read, else ""
	action   wire.Action
	do       func(keepPicture func() (release func())) (wire.Reply, error)
	fail     func(codes) wire.Reply
}

// serve reads a call, authenticates the caller, executes the call and writes the reply.
func (p *Routes) serve(c *base.Context, decode func(wire.Request) call) error {
	var asked call
	r := c.Request()
	release, err := p.Pictures.Read(c, maxCompatibleBody, func(body []byte) {
		asked = decode(wire.Request{Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body})
	})
	defer func() { release() }()
	keepPicture := func() func() {
		kept := release
		release = func() {}
		return kept
	}
	if err != nil {
		return err
	}
	err = p.authenticate(c, asked.key, asked.bad)
	if err == nil && asked.bad != "" && asked.action != wire.Submit {
		err = unreadable(asked.bad)
	}
	var reply wire.Reply
	if err == nil {
		reply, err = asked.do(keepPicture)
	}
	switch {
	case err != nil && (c.Response().Committed || errors.Is(err, base.ErrHungUp) || c.Ctx().Err() != nil):
		return base.ErrHungUp
	case err != nil:
		says := p.codesOf(c, err)
		p.logRefusal(c, err, says)
		return write(c, asked.fail(says))
	case reply.Type != "":
		return write(c, reply)
	}
	return nil
}

// authenticate identifies the caller by the key that the client sent. If the configuration file has
// no keys, the caller is on this machine, and any text with the length of a key is accepted. The
// argument bad is the error code of a call that could not be read, else "". Such a call may lack
// its key.
func (p *Routes) authenticate(c *base.Context, key, bad string) error {
	if key == "" && bad != "" {
		return unreadable(bad)
	}
	if c.Caller == nil {
		owner := c.Access.Owner(key)
		switch {
		case key == "":
			return compat.OddKey
		case owner == nil && !p.WrongKeys.Allow(c):
			return compat.TooManyKeys
		case owner == nil:
			return compat.WrongKey
		}
		if c.Caller = owner; !owner.May(targets.ScopeToken) {
			return compat.NotEntitled
		}
	} else if len(key) != clientKey {
		return compat.OddKey
	}
	return nil
}

// submit creates a task for an order and returns the number of the task. If the call has a picture,
// the picture is in use until the task ends.
func (p *Routes) submit(c *base.Context, o wire.Order, keepPicture func() (release func())) (number string, err error) {
	switch {
	case c.Caller.OverRate(c.Began) > 0:
		return "", compat.TooFast
	case p.Stopping.Load():
		return "", compat.Stopping
	case o.Bad != "":
		return "", invalid(o)
	case o.Pingback != "":
		return "", unsupported("a pingback: poll instead", "pingback")
	case len(o.Undone) > 0:
		return "", unsupported("the parameter "+displayName(o.Undone[0]), o.Undone...)
	}
	terms, err := p.submitTerms(c, o)
	if err != nil {
		return "", err
	}
	p.noteIgnored(c, o.Ignored)
	terms.Hold = keepPicture
	task := compat.Task{Caller: c.Caller.StableName, Type: o.Identity.Type}
	task.Identity, task.Guest = pool.Hash(terms.Call.ID)
	return p.Tasks.Submit(c.Ctx(), task, terms)
}

func (p *Routes) poll(c *base.Context, id string) (compat.Result, error) {
	n, ok := wire.TaskNumber(id)
	if !ok {
		return compat.Result{}, compat.BadID
	}
	if n < 1e10 || n >= 1e11 || id[0] == '0' {
		return compat.Result{}, compat.UnknownTask
	}
	return p.Tasks.Poll(c.Ctx(), id, c.Caller.StableName, func(t compat.Task) (compat.Terms, error) { return p.pollTerms(c, t) })
}

func (p *Routes) report(c *base.Context, id string, verdict wire.Verdict) error {
	if _, ok := wire.TaskNumber(id); !ok {
		return compat.BadID
	}
	task, order, err := p.Tasks.Report(c.Ctx(), id, c.Caller.StableName)
	switch {
	case err != nil:
		return err
	case verdict.Fits != nil && !verdict.Fits(task.Type):
		return compat.UnknownTask // the call does not accept the type of the reported task
	}
	if err = c.Admit(task.Identity); err == nil {
		err = p.Report(c, base.Sold{Order: order, Identity: task.Identity, Type: task.Type}, verdict.Good)
	}
	switch {
	case errors.Is(err, base.ErrReported):
		return compat.Duplicate
	case errors.Is(err, base.ErrUnknownToken):
		return compat.NotReported
	}
	return err
}

// balance returns the unused part of the overall budget, in solves. Without a budget the result is
// the balance of the first provider that reports a balance. If no provider reports a balance, the
// result is the number of tasks that may be in flight at the same time.
func (p *Routes) balance(c *base.Context) (float64, error) {
	now := p.Status.Build(c.Ctx())
	switch budget := now.Budget; {
	case budget != nil:
		return float64(max(0, budget.Limit-budget.Used)), nil
	case c.Access.Set.Budget.PerDay > 0: // the budget has not been read yet
		return 0, compat.StoreDown
	}
	for _, provider := range now.Providers {
		if provider.Balance != nil {
			return *provider.Balance, nil
		}
	}
	return float64(threads(now).Threads), nil
}

func threads(now *status.Document) wire.ThreadsAnswer {
	a := wire.ThreadsAnswer{Status: 1}
	for _, provider := range now.Providers {
		a.Threads += provider.Concurrency
		a.Working += provider.InFlight
	}
	a.Free = max(0, a.Threads-a.Working)
	return a
}

// ofTask is the call of each task: the token stays with the task, because the client may poll again.
var ofTask = &pool.Call{Task: true}

// handout returns the Handout for the token of a solved task.
func handout(c *base.Context, got *compat.Result) *base.Handout {
	c.Target = c.Access.ByID[got.Identity]
	return &base.Handout{Token: &got.Token, Call: ofTask, Kind: got.Type}
}

func (p *Routes) answerSolved(c *base.Context, got *compat.Result, reply wire.Reply) error {
	return p.Send(c, handout(c, got), reply.Type, reply.Body)
}

func write(c *base.Context, reply wire.Reply) error {
	return c.Blob(http.StatusOK, reply.Type, reply.Body)
}
