package delivery

import (
	"context"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/refill"
)

// outagePatience is how long a caller waits at least during an outage, because many outages end within seconds.
const outagePatience = 2 * time.Second

// Supply says whether a token can come for a target, so that no caller waits for one that cannot be bought.
type Supply struct {
	Pool   kernel.Looker
	Outage func(ctx context.Context) (reason string, until time.Time, is bool) // see status.Collector.Outage
}

// Held reports whether an operator must act before another order is placed for a target.
func (s *Supply) Held(ctx context.Context, t *kernel.Target) bool {
	c, err := t.Counts(ctx, s.Pool)
	return err == nil && isHeld(refill.StatusOf(t.Target, &c))
}

func isHeld(now refill.Status) bool { return now.State == refill.Refused || now.State == refill.Paused }

// IsOut reports whether a target has neither tokens nor orders, and nothing can be bought for it now.
func (s *Supply) IsOut(ctx context.Context, t *kernel.Target) bool { return s.isOut(ctx, t, true) }

// Out returns IsOut for a caller that begins to wait now: an outage of all providers counts only after a while.
func (s *Supply) Out(t *kernel.Target) func(ctx context.Context) bool {
	began := time.Now()
	return func(ctx context.Context) bool { return s.isOut(ctx, t, time.Since(began) >= outagePatience) }
}

func (s *Supply) isOut(ctx context.Context, t *kernel.Target, outages bool) bool {
	c, err := t.Counts(ctx, s.Pool)
	if err != nil || c.Fresh+c.Orders > 0 {
		return false
	}
	now := refill.StatusOf(t.Target, &c)
	if isHeld(now) || now.State == refill.Budget && c.At.Before(now.Until) {
		return true
	}
	_, _, is := s.Outage(ctx)
	return outages && is
}
