package compatapi

import (
	"context"
	"errors"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/base"
	"poold/internal/provider/wire"
	"poold/internal/targets"
)

// submitTerms returns the terms for a submission. If no target of the caller has the identity, the
// terms are those of a guest.
func (p *Routes) submitTerms(c *base.Context, o wire.Order) (compat.Terms, error) {
	t := c.Access.ByID[o.Identity.ID()]
	if t == nil || !c.Caller.MayUse(t.Name) {
		return p.submitGuest(c, o)
	}
	// A new task does not wait if an operator must act first.
	terms := p.targetTerms(c, t)
	terms.Out = func(ctx context.Context) bool { return p.IsHeld(ctx, t) || p.IsOut(ctx, t) }
	return terms, nil
}

// submitGuest returns the terms for a submission without a target.
func (p *Routes) submitGuest(c *base.Context, o wire.Order) (compat.Terms, error) {
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
	return p.guestTerms(c, asked), nil
}

// pollTerms returns the current terms of a task: a reload may have changed the terms since the
// submission.
func (p *Routes) pollTerms(c *base.Context, task compat.Task) (compat.Terms, error) {
	t := c.Access.ByID[task.Identity]
	mayBuy := task.Guest && c.Caller.Globs == nil && c.Caller.May(targets.ScopeSolve)
	switch {
	case t != nil && !c.Caller.MayUse(t.Name), t == nil && !mayBuy:
		return compat.Terms{}, compat.NotAllowed
	case t != nil && !task.Guest:
		return p.targetTerms(c, t), nil
	}
	c.Target = t
	asked := targets.SolveRequest{Identity: task.Parameters}
	asked.Identity.Type = task.Type
	return p.guestTerms(c, asked), nil
}

// targetTerms returns the terms of a target. An earlier task waits while an order is in flight, which may be for it.
func (p *Routes) targetTerms(c *base.Context, t *targets.Target) compat.Terms {
	c.Target = t
	terms := compat.Terms{Call: base.CallFor(t), Out: func(ctx context.Context) bool { return p.IsOut(ctx, t) }}
	terms.Call.Row = p.Row(c, "", false)
	return terms
}

// guestTerms returns the terms of a guest.
func (p *Routes) guestTerms(c *base.Context, asked targets.SolveRequest) (terms compat.Terms) {
	terms.Call, terms.Guest, terms.Rate = base.GuestOf(c.Access.Set, asked)
	terms.Call.Row = p.Row(c, base.ImageOf(&asked), true)
	return terms
}
