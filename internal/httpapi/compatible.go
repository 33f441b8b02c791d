package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/pool"
	"poold/internal/provider/wire"
	"poold/internal/status"
	"poold/internal/targets"
)

// maxCompatibleBody limits the body of a call to the compatible endpoints, in bytes.
const maxCompatibleBody = 1 << 20

// mostIDs is the maximum number of tasks that one call of res.php can poll.
const mostIDs = 50

// noCost is the price of a token that replies to clients of the services' protocols state.
const noCost = "0"

// serveClient handles a call in a protocol of solving services. It reads the call, authenticates the caller, executes
// the call and writes the reply.
func (s *Server) serveClient(c *Context) error {
	r := c.Request()
	body, release, err := readPicture(c, s.strangers, maxCompatibleBody)
	defer release()
	if err != nil {
		return err
	}
	asked := wire.Read(wire.Request{
		Method: r.Method, Path: strings.TrimSuffix(r.URL.Path, "/"), ContentType: r.Header.Get("Content-Type"),
		RawQuery: r.URL.RawQuery, Body: body,
	})
	if asked.CORS && len(c.Access.Callers) > 0 {
		// Any web page may read the reply, because browsers add no credentials to this call: the page
		// must already know a key.
		c.Response().Header().Set(echo.HeaderAccessControlAllowOrigin, "*")
	}
	reply, err := s.execute(c, &asked)
	switch {
	case err != nil && (c.Response().Committed || errors.Is(err, ErrHungUp) || c.Ctx().Err() != nil):
		return ErrHungUp
	case err != nil:
		cause := s.causeOf(c, err)
		s.logRefusal(c, cause)
		reply = asked.Failed(cause.Code, cause.Why)
	case c.Response().Committed:
		return nil
	}
	return c.Blob(http.StatusOK, reply.Type, reply.Body)
}

// execute authenticates the caller and executes a call. It returns the reply, or has sent the token of a solved task.
func (s *Server) execute(c *Context, asked *wire.Call) (reply wire.Reply, err error) {
	if err := s.authenticate(c, asked.Key, asked.Bad); err != nil {
		return reply, err
	}
	switch {
	case asked.Bad != "":
		return reply, unreadable(asked.Bad)
	case asked.Action == wire.Submit:
		number, err := s.submit(c, asked.Order)
		return asked.Accepted(number), err
	case asked.Action == wire.Poll && asked.Many:
		return s.pollMany(c, asked)
	case asked.Action == wire.Poll:
		got, err := s.poll(c, asked.IDs[0])
		if err == nil {
			err = s.sendSolved(c, &got, asked.Solved(wire.Solution{
				Type: got.Type, Token: got.Token.Value, Extra: got.Token.Extra.Members(), Cost: noCost, Made: got.Made,
				Born: got.Token.Born,
			}))
		}
		return reply, err
	case asked.Action == wire.Report:
		return asked.Reported(), s.report(c, asked.IDs[0], asked.Good)
	case asked.Action == wire.Balance:
		left, err := s.balance(c)
		return asked.Balance(left), err
	case asked.Action == wire.Threads:
		return wire.JSON(threads(s.Status.Build(c.Ctx()))), nil
	case asked.Action == wire.Other && asked.Word == "":
		return reply, compat.NoAction
	}
	return reply, unsupported("the action " + displayName(asked.Word))
}

// authenticate identifies the caller by the key that the client sent. If the configuration file has
// no keys, the caller is on this machine, and any key is accepted. The argument bad is the error code of a
// call that could not be read, else "". Such a call may lack its key.
func (s *Server) authenticate(c *Context, key, bad string) error {
	caller := c.Access.CallerWith(key)
	switch {
	case key == "" && bad != "":
		return unreadable(bad)
	case key == "":
		return compat.NoKey
	case c.Caller != nil: // the file has no keys
		return nil
	case caller == nil && !s.allowWrongKey(c):
		return compat.TooManyKeys
	case caller == nil:
		return compat.WrongKey
	}
	known(c.Ctx())
	if c.Caller = caller; !caller.May(targets.ScopeToken) {
		return compat.NotEntitled
	}
	return nil
}

// submit creates a task for an order and returns the number of the task.
func (s *Server) submit(c *Context, o wire.Submission) (number string, err error) {
	switch {
	case c.Caller.OverRate(c.Began) > 0:
		return "", compat.TooFast
	case s.stopping.Load():
		return "", compat.Stopping
	case o.Bad != "":
		return "", invalid(o)
	case o.CallbackURL != "":
		return "", unsupported("a callback: poll instead")
	case len(o.Undone) > 0:
		return "", unsupported("the parameter " + displayName(o.Undone[0]))
	}
	terms, err := s.submitTerms(c, o)
	if err != nil {
		return "", err
	}
	if len(o.Image) > MaxBody*3/4 {
		terms.Reserve = func() (func(), error) { return reserve(c, s.pictures) }
	}
	return s.Tasks.Submit(c.Ctx(), c.Caller.StableName, o.Identity.Type, terms)
}

func (s *Server) poll(c *Context, id string) (compat.Result, error) {
	return s.Tasks.Poll(c.Ctx(), id, c.Caller.StableName,
		func(t compat.Task) (compat.Terms, error) { return s.pollTerms(c, t) })
}

// pollMany polls several tasks for one call. The reply has one value or code per id, in the order
// of the ids.
func (s *Server) pollMany(c *Context, asked *wire.Call) (reply wire.Reply, err error) {
	if len(asked.IDs) > mostIDs {
		return reply, unsupported("more than " + strconv.Itoa(mostIDs) + " ids in one call")
	}
	values := make([]string, len(asked.IDs))
	var found []compat.Result
	for i, id := range asked.IDs {
		got, err := s.poll(c, id)
		if err != nil {
			values[i] = s.causeOf(c, err).Code
			continue
		}
		values[i] = got.Token.Value
		found = append(found, got)
	}
	reply = asked.Bare(strings.Join(values, "|"))
	if len(found) == 0 {
		return reply, nil
	}
	last := len(found) - 1
	for i := range found[:last] {
		s.Arrived(c, deliveryOf(c, &found[i]))
	}
	return reply, s.sendSolved(c, &found[last], reply)
}

func (s *Server) report(c *Context, id string, accepted bool) error {
	task, order, err := s.Tasks.Report(c.Ctx(), id, c.Caller.StableName)
	switch {
	case err != nil:
		return err
	case c.Admit(task.Identity) != nil: // the key has lost the target since the submission
		return compat.UnknownTask
	}
	err = s.countReport(c, order, task.Identity, task.Type, accepted)
	switch {
	case errors.Is(err, ErrReported):
		return compat.Duplicate
	case errors.Is(err, ErrUnknownToken):
		return compat.NotReported
	}
	return err
}

// balance returns the unused part of the overall budget, in solves. Without a budget the result is
// the balance of the first provider that reports a balance. If no provider reports a balance, the
// result is the number of tasks that may be in flight at the same time.
func (s *Server) balance(c *Context) (float64, error) {
	now := s.Status.Build(c.Ctx())
	switch budget := now.Budget; {
	case budget != nil:
		return max(0, budget.Limit-budget.Used), nil
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

// ofTask stands for the call of a task when its token is sent. If the client does not receive the token, the task keeps
// it, because the client may poll again.
var ofTask = &pool.Call{Task: true}

// deliveryOf returns the Delivery for the token of a solved task.
func deliveryOf(c *Context, got *compat.Result) *Delivery {
	c.Target = c.Access.ByID[got.Identity]
	return &Delivery{Token: &got.Token, Call: ofTask, Type: got.Type}
}

func (s *Server) sendSolved(c *Context, got *compat.Result, reply wire.Reply) error {
	return s.Send(c, deliveryOf(c, got), reply.Type, reply.Body)
}

// submitTerms returns the terms for a submission. If no target of the caller has the identity, the
// terms are a guest's.
func (s *Server) submitTerms(c *Context, o wire.Submission) (compat.Terms, error) {
	t := c.Access.ByID[o.Identity.ID()]
	if t == nil || !c.Caller.MayUse(t.Name) {
		return s.submitGuest(c, o)
	}
	// A new task does not wait if an operator must act first.
	terms := s.targetTerms(c, t)
	terms.Out = func(ctx context.Context) bool { return s.NeedsOperator(ctx, t) || s.IsOut(ctx, t, true) }
	return terms, nil
}

// submitGuest returns the terms for a submission without a target.
func (s *Server) submitGuest(c *Context, o wire.Submission) (compat.Terms, error) {
	switch buys := c.Caller.Targets == nil && c.Caller.May(targets.ScopeSolve); {
	case !buys && o.Identity.Proxy != "":
		return compat.Terms{}, unsupported("a proxy without a target for this key, which may not buy for guests")
	case !buys:
		return compat.Terms{}, noTarget(c, o.Identity, "this key may buy nothing else")
	}
	asked, err := targets.SolveOf(o.Identity, o.Image)
	if invalid, is := errors.AsType[targets.Problems](err); is {
		return compat.Terms{}, &compat.Cause{Code: wire.CodeBadParams, Why: invalid[0].String()}
	}
	if err := c.Access.Set.Solve.Allows(asked.Identity); err != nil {
		if asked.Identity.Type == captcha.Image {
			return compat.Terms{}, compat.NotSupported
		}
		return compat.Terms{}, noTarget(c, o.Identity, err.Error())
	}
	return compat.Terms{Request: s.ofGuest(c, asked)}, nil
}

// pollTerms returns the current terms of a task: a reload may have changed the terms since the
// submission.
func (s *Server) pollTerms(c *Context, task compat.Task) (compat.Terms, error) {
	t := c.Access.ByID[task.Identity]
	mayBuy := task.Guest && c.Caller.Targets == nil && c.Caller.May(targets.ScopeSolve)
	switch {
	case t != nil && !c.Caller.MayUse(t.Name), t == nil && !mayBuy:
		return compat.Terms{}, compat.NotAllowed
	case t != nil && !task.Guest:
		return s.targetTerms(c, t), nil
	}
	c.Target = t
	asked := targets.SolveRequest{Identity: task.Parameters}
	asked.Identity.Type = task.Type
	return compat.Terms{Request: s.ofGuest(c, asked)}, nil
}

// targetTerms returns the terms of a target. A task that was submitted earlier also waits while an order is in flight,
// because that order may be for it.
func (s *Server) targetTerms(c *Context, t *targets.Target) compat.Terms {
	c.Target = t
	return compat.Terms{Request: s.ofTarget(c, t, "", false)}
}
