package compatapi

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/provider/wire"
	"poold/internal/targets"
)

// submitTerms returns the terms for a submission. If no target of the caller has the identity, the
// terms are those of a guest.
func (p *Routes) submitTerms(c *kernel.Call, o wire.Order) (compat.Terms, error) {
	t := c.Access.ByID[o.Identity.ID()]
	if t == nil || !c.Caller.MayUse(t.Name) {
		return p.submitGuest(c, o)
	}
	c.Target = t
	return p.targetTerms(c, t, true), nil
}

// submitGuest returns the terms for a submission without a target.
func (p *Routes) submitGuest(c *kernel.Call, o wire.Order) (compat.Terms, error) {
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
	guest := delivery.GuestOf(c.Access.Set, asked, asked.Identity.ID())
	return p.guestTerms(c, guest.Spec.ID, guest.Spec.Margin, guest), nil
}

// pollTerms returns the current terms of a task: a reload may have changed the terms since the
// submission.
func (p *Routes) pollTerms(c *kernel.Call, task compat.Task) (compat.Terms, error) {
	t := c.Access.ByID[task.Identity]
	switch {
	case t != nil && c.Caller.MayUse(t.Name):
		return p.targetTerms(c, t, false), nil
	case t != nil, !task.Guest, c.Caller.Globs != nil, !c.Caller.May(targets.ScopeSolve):
		return compat.Terms{}, compat.NotAllowed
	}
	_, margin := c.Access.Set.Life(task.Type)
	return p.guestTerms(c, task.Identity, margin, nil), nil
}

// targetTerms returns the terms of a target. The argument isNew is true if the task is submitted
// now.
func (p *Routes) targetTerms(c *kernel.Call, t *kernel.Target, isNew bool) compat.Terms {
	return compat.Terms{Take: t.Take(c.Caller), Supply: targetSupply{&p.Supply, t, isNew}}
}

// guestTerms returns the terms of a guest. The argument guest is nil if the order was placed by an
// earlier call.
func (p *Routes) guestTerms(c *kernel.Call, id captcha.ID, margin time.Duration, guest *ondemand.Guest) compat.Terms {
	return compat.Terms{
		Take:  pool.Request{ID: id, Margin: margin, Caller: c.Caller.StableName, MaxWaiting: ondemand.MostWaiting},
		Guest: guest,
	}
}

// targetSupply implements compat.Supply for one target.
type targetSupply struct {
	*delivery.Supply

	target *kernel.Target
	isNew  bool // the task is submitted now
}

func (s targetSupply) Out(ctx context.Context) bool {
	return (s.IsBarred(ctx, s.target) || s.IsOut(ctx)) && s.IsEmpty(ctx, s.target)
}

// Attend immediately ends the wait of a new task if an operator must act first. An earlier task
// continues to wait while an order is in flight, because the order may be for the earlier task.
func (s targetSupply) Attend(ctx context.Context, r *pool.Request) {
	if s.isNew {
		s.Supply.Attend(ctx, s.target, r)
		return
	}
	s.Watch(ctx, s.target, r)
}
