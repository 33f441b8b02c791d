package purchase

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"poold/internal/pool"
)

// Refusals tells what follows from an order that could not be placed. Only test doubles of the Buyer use it directly.
type Refusals struct {
	Pool   *pool.Pool
	Log    *slog.Logger
	UsedUp pool.ToldUsedUp // is called if a budget refuses an order; nil = no call
}

// Tell reports a budget that refused an order. If the order was for a guest, it answers the callers for whom no order
// is in flight. They continue to wait if a permit, or the end of a short brake, is all that the order needs.
func (r Refusals) Tell(ctx context.Context, s *Spec, cause error) {
	var refused *pool.NotPlacedError
	errors.As(cause, &refused)
	if refused != nil && refused.Reason == pool.ReasonBudget && r.UsedUp != nil {
		r.UsedUp(refused.Scope, s.Target, refused.Spent, time.Now().Add(refused.After))
	}
	if !s.Guest || cause == nil || ctx.Err() != nil || errors.Is(cause, pool.ErrDown) {
		return
	}
	answer := &pool.FailedError{NotPlaced: pool.ReasonProvider, Reason: cause.Error()}
	if refused != nil {
		lasts := refused.After == 0 || refused.After > pool.Patience
		isBusy := refused.Reason == pool.ReasonPermit || refused.Kind == string(pool.Busy)
		if refused.Reason == pool.ReasonEnough || isBusy || !lasts {
			return
		}
		answer.Reason = refused.Text
		if refused.After > 0 {
			answer.Until = time.Now().Add(refused.After)
		}
		switch refused.Reason {
		case pool.ReasonBudget:
			answer.NotPlaced = pool.ReasonBudget
			answer.Reason = refused.Budget() + "; " + pool.RoomAgain(answer.Until)
		case pool.ReasonBrake:
			// Only the counts show whether the brake is the identity's own or an account's.
			c, err := r.Pool.Counts(ctx, pool.Query{ID: s.ID, Margin: s.Margin})
			if err == nil && c.Brake.On() {
				answer = &pool.FailedError{BadParameters: c.Brake.Kind == string(pool.BadParameters), Reason: c.Brake.Reason}
			}
		}
	}
	if _, err := r.Pool.Refuse(ctx, s.ID, answer); err != nil {
		r.Log.Debug("callers not told that nothing can be bought; the next decision tells them", "identity", s.ID, "err", err)
	}
}
