package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/provider/wire"
	"poold/internal/targets"
)

// submitTerms says on which terms a caller may have what it submits: those of the target
// that has the identity, else those of a guest.
func (p *compatible) submitTerms(c *call, o wire.Order) (compat.Terms, error) {
	if t := c.access.byID[o.Identity.ID()]; t != nil {
		if !c.caller.mayUse(t.Name) {
			return compat.Terms{}, compat.NotAllowed
		}
		c.target = t
		return p.targetTerms(c, t), nil
	}
	p.noteNearMiss(c, o.Identity)
	switch buys := c.caller.globs == nil && c.caller.may(targets.ScopeSolve); {
	case !buys && o.Identity.Proxy != "":
		return compat.Terms{}, notDone("a proxy that no target has, for a key that may not have what no target has,")
	case !buys:
		return compat.Terms{}, compat.NotAllowed
	}
	asked, err := targets.SolveOf(o.Identity, o.Image)
	var invalid targets.Problems
	switch {
	case errors.As(err, &invalid):
		return compat.Terms{}, &fault{wire.CodeBadParams, invalid[0].String()}
	case err != nil:
		return compat.Terms{}, err
	}
	if err := c.access.set.Solve.Allows(asked.Identity); err != nil {
		if asked.Identity.Type == captcha.Image {
			return compat.Terms{}, compat.NotSupported
		}
		return compat.Terms{}, &fault{wire.CodeDomain, err.Error()}
	}
	guest := guestOf(c.access.set, asked, asked.Identity.ID())
	return p.guestTerms(c, guest.Spec.ID, guest.Spec.Margin, guest), nil
}

// pollTerms says on which terms a task takes now: a reload may have changed them since its
// submit.
func (p *compatible) pollTerms(c *call, task compat.Task) (compat.Terms, error) {
	t := c.access.byID[task.Identity]
	switch {
	case t != nil && c.caller.mayUse(t.Name):
		return p.targetTerms(c, t), nil
	case t != nil, !task.Guest, c.caller.globs != nil, !c.caller.may(targets.ScopeSolve):
		return compat.Terms{}, compat.NotAllowed
	}
	_, margin := c.access.set.Life(task.Type)
	return p.guestTerms(c, task.Identity, margin, nil), nil
}

func (p *compatible) targetTerms(c *call, t *target) compat.Terms {
	return compat.Terms{
		Take: pool.Request{
			ID: t.ID, Margin: t.Margin, Caller: c.caller.stable, MaxWaiting: t.maxWaiting, Rate: t.rate, RatePer: t.ratePer,
		},
		Supply: targetSupply{&p.supply, t},
	}
}

// guestTerms are those of a guest; guest is nil where its order was placed before.
func (p *compatible) guestTerms(c *call, id captcha.ID, margin time.Duration, guest *ondemand.Guest) compat.Terms {
	return compat.Terms{
		Take:  pool.Request{ID: id, Margin: margin, Caller: c.caller.stable, MaxWaiting: ondemand.MostWaiting},
		Guest: guest,
	}
}

// targetSupply is the supply of one target.
type targetSupply struct {
	*supply

	target *target
}

func (s targetSupply) Out(ctx context.Context) bool {
	return (s.isBarred(ctx, s.target) || s.isOut(ctx)) && s.isEmpty(ctx, s.target)
}

func (s targetSupply) Attend(ctx context.Context, r *pool.Request) { s.attend(ctx, s.target, r) }

// noteNearMiss finds the target that an identity without one nearly has: who submits it
// most likely means that one.
func (p *compatible) noteNearMiss(c *call, id captcha.Identity) {
	for i := range c.access.set.Targets {
		t := &c.access.set.Targets[i]
		fields := compat.Differences(t.Identity, id)
		if fields == nil || !p.near.Note(t.ID, fields, time.Now()) {
			continue
		}
		p.log.Warn("a client submits what a target nearly has", slog.String("target", t.Name),
			slog.Any("fields", fields), slog.String("key", c.caller.name))
	}
}
