package solve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// Spec describes the order that a request wants.
type Spec = purchase.Spec

// Buyer carries one order from its placing to its end, and then returns; *purchase.Buyer implements it.
type Buyer interface {
	Buy(ctx context.Context, s Spec, tried func(next captcha.ID, err error))
	Pace(t captcha.Type) (firstPoll, interval time.Duration) // for package refill
}

// AnsweringBuyer is a Buyer that handles refusals: if an order for a guest cannot be placed, it answers the callers
// that wait for it. The refiller and the Service buy through it.
type AnsweringBuyer struct {
	Buyer

	Pool   *pool.Pool
	Log    *slog.Logger
	UsedUp pool.ToldUsedUp // is called if a budget refuses an order
}

// Buy buys with the Buyer.
func (b *AnsweringBuyer) Buy(ctx context.Context, s Spec, tried func(next captcha.ID, err error)) {
	b.Buyer.Buy(ctx, s, func(next captcha.ID, err error) {
		if refused := (*pool.NotPlacedError)(nil); errors.As(err, &refused) && refused.Reason == pool.ReasonBudget {
			b.UsedUp(refused.Scope, s.Target, refused.Spent, time.Now().Add(refused.After))
		}
		if s.Guest && err != nil && ctx.Err() == nil {
			b.tell(ctx, s, err)
		}
		tried(next, err)
	})
}

// tell answers the callers of a guest with the reason why no order can be placed.
func (b *AnsweringBuyer) tell(ctx context.Context, s Spec, cause error) {
	answer := &pool.FailedError{NotPlaced: pool.ReasonBrake, Reason: cause.Error()} // no provider at all
	var refused *pool.NotPlacedError
	switch {
	case errors.Is(cause, pool.ErrDown):
		return
	case errors.As(cause, &refused):
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
			c, err := b.Pool.Look(ctx, pool.Query{ID: s.ID, Margin: s.Margin})
			if err == nil && c.Brake.Holds() {
				answer = &pool.FailedError{BadParameters: c.Brake.Kind == string(pool.BadParameters), Reason: c.Brake.Reason}
			}
		}
	}
	if _, err := b.Pool.Refuse(ctx, s.ID, answer); err != nil {
		b.Log.Debug("callers not told that nothing can be bought; the next decision tells them", "identity", s.ID, "err", err)
	}
}
