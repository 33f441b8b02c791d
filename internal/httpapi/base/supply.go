package base

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

// outagePatience is how long a caller waits at least during an outage, because many outages end within seconds.
const outagePatience = 2 * time.Second

// Look returns the counts of a target. Concurrent calls for a target share the result.
func (d *Delivery) Look(ctx context.Context, t *targets.Target) (pool.Counts, error) {
	counts, err, _ := d.looks.Do(string(t.ID), func() (any, error) {
		return d.Pool.Look(context.WithoutCancel(ctx), pool.Query{ID: t.ID, Margin: t.Margin})
	})
	return counts.(pool.Counts), err
}

// IsHeld reports whether an operator must act before another order is placed for a target.
func (d *Delivery) IsHeld(ctx context.Context, t *targets.Target) bool {
	c, err := d.Look(ctx, t)
	return err == nil && isHeld(refill.StatusOf(t, &c))
}

func isHeld(now refill.Status) bool { return now.State == refill.Refused || now.State == refill.Paused }

// IsOut reports whether a target has neither tokens nor orders, and nothing can be bought for it now, so that no
// caller waits for a token that cannot be bought.
func (d *Delivery) IsOut(ctx context.Context, t *targets.Target) bool { return d.isOut(ctx, t, true) }

// Out returns IsOut for a caller that begins to wait now: an outage of all providers counts only after a while.
func (d *Delivery) Out(t *targets.Target) func(ctx context.Context) bool {
	began := time.Now()
	return func(ctx context.Context) bool { return d.isOut(ctx, t, time.Since(began) >= outagePatience) }
}

func (d *Delivery) isOut(ctx context.Context, t *targets.Target, outages bool) bool {
	c, err := d.Look(ctx, t)
	if err != nil || c.Fresh+c.Orders > 0 {
		return false
	}
	now := refill.StatusOf(t, &c)
	if isHeld(now) || now.State == refill.Budget && c.At.Before(now.Until) {
		return true
	}
	_, _, is := d.Outage(ctx)
	return outages && is
}
