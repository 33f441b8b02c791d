package httpapi

import (
	"context"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

// Counts returns the counts of a target. Concurrent calls for a target share the result.
func (s *Server) Counts(ctx context.Context, t *targets.Target) (pool.Counts, error) {
	counts, err, _ := s.looks.Do(string(t.ID), func() (any, error) {
		return s.Pool.Counts(context.WithoutCancel(ctx), pool.Query{ID: t.ID, Margin: t.Margin})
	})
	return counts.(pool.Counts), err
}

// NeedsOperator reports whether an operator must act before another order is placed for a target.
func (s *Server) NeedsOperator(ctx context.Context, t *targets.Target) bool {
	c, err := s.Counts(ctx, t)
	return err == nil && isHeld(refill.StatusOf(t, &c))
}

func isHeld(now refill.Status) bool { return now.State == refill.Refused || now.State == refill.Paused }

// IsOut reports whether a target has neither tokens nor orders, and nothing can be bought for it now, so that no caller
// waits for a token that cannot be bought. The reason is a pause, a refusal or a budget. If outages is true, an outage
// of all providers is also such a reason.
func (s *Server) IsOut(ctx context.Context, t *targets.Target, outages bool) bool {
	c, err := s.Counts(ctx, t)
	if err != nil || c.Fresh+c.Orders > 0 {
		return false
	}
	now := refill.StatusOf(t, &c)
	stopped := isHeld(now) || now.State == refill.Budget && c.At.Before(now.Until)
	if stopped || !outages {
		return stopped
	}
	_, _, isOutage := s.Status.Outage(ctx)
	return isOutage
}
