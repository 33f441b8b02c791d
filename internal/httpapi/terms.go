package httpapi

import (
	"context"
	"errors"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/provider/wire"
	"poold/internal/targets"
)

// submitTerms returns the terms for a submission. If no target of the caller has the identity, the
// terms are those of a guest.
func (s *Server) submitTerms(c *Context, o wire.Order) (compat.Terms, error) {
	t := c.Access.ByID[o.Identity.ID()]
	if t == nil || !c.Caller.MayUse(t.Name) {
		return s.submitGuest(c, o)
	}
	// A new task does not wait if an operator must act first.
	terms := s.targetTerms(c, t)
	terms.Out = func(ctx context.Context) bool { return s.IsHeld(ctx, t) || s.IsOut(ctx, t) }
	return terms, nil
}

// submitGuest returns the terms for a submission without a target.
func (s *Server) submitGuest(c *Context, o wire.Order) (compat.Terms, error) {
	switch buys := c.Caller.Globs == nil && c.Caller.May(targets.ScopeSolve); {
	case !buys && o.Identity.Proxy != "":
		return compat.Terms{}, unsupported("a proxy without a target for this key, which may not buy for guests", "proxy")
	case !buys:
		return compat.Terms{}, noTarget(c, o.Identity, "this key may buy nothing else")
	}
	asked, err := targets.SolveOf(o.Identity, o.Image)
	var invalid targets.Problems
	switch {
	case errors.As(err, &invalid):
		return compat.Terms{}, &fault{code: wire.CodeBadParams, why: invalid[0].String()}
	case err != nil:
		return compat.Terms{}, err
	}
	if err := c.Access.Set.Solve.Allows(asked.Identity); err != nil {
		if asked.Identity.Type == captcha.Image {
			return compat.Terms{}, compat.NotSupported
		}
		return compat.Terms{}, noTarget(c, o.Identity, err.Error())
	}
	return s.guestTerms(c, asked), nil
}

// pollTerms returns the current terms of a task: a reload may have changed the terms since the
// submission.
func (s *Server) pollTerms(c *Context, task compat.Task) (compat.Terms, error) {
	t := c.Access.ByID[task.Identity]
	mayBuy := task.Guest && c.Caller.Globs == nil && c.Caller.May(targets.ScopeSolve)
	switch {
	case t != nil && !c.Caller.MayUse(t.Name), t == nil && !mayBuy:
		return compat.Terms{}, compat.NotAllowed
	case t != nil && !task.Guest:
		return s.targetTerms(c, t), nil
	}
	c.Target = t
	asked := targets.SolveRequest{Identity: task.Parameters}
	asked.Identity.Type = task.Type
	return s.guestTerms(c, asked), nil
}

// targetTerms returns the terms of a target. An earlier task waits while an order is in flight, which may be for it.
func (s *Server) targetTerms(c *Context, t *targets.Target) compat.Terms {
	c.Target = t
	terms := compat.Terms{Call: CallFor(t), Out: func(ctx context.Context) bool { return s.IsOut(ctx, t) }}
	terms.Call.Row = s.Row(c, "", false)
	return terms
}

// guestTerms returns the terms of a guest.
func (s *Server) guestTerms(c *Context, asked targets.SolveRequest) (terms compat.Terms) {
	terms.Call, terms.Guest, terms.Rate = GuestOf(c.Access.Set, asked)
	terms.Call.Row = s.Row(c, ImageOf(&asked), true)
	return terms
}
