package solve

import (
	"context"
	"errors"

	"poold/internal/pool"
)

var savedBy = map[pool.Source]pool.SavingsSource{
	pool.FromPool: pool.SavedPool, pool.FromSolve: pool.SavedSolve, FromShared: pool.SavedSharedWait,
	pool.FromReplay: pool.SavedReplay,
}

// count counts a request. A request without a token counts as missed if poold tried to get a token for it, and
// otherwise as denied.
func (s *Solver) count(ctx context.Context, got outcome) {
	counted := savedBy[got.token.Source]
	if got.ended {
		counted = pool.SavedSharedCache
	}
	if got.err != nil {
		empty, failed := (*pool.EmptyError)(nil), (*pool.FailedError)(nil)
		switch counted = pool.SavedDenied; {
		case errors.As(got.err, &empty), errors.Is(got.err, context.Canceled), errors.Is(got.err, context.DeadlineExceeded),
			errors.As(got.err, &failed) && failed.NotPlaced == "" && !failed.BadParameters:
			counted = pool.SavedMissed
		}
	}
	_ = s.Pool.Save(context.WithoutCancel(ctx), counted) // without Redis the request is not counted
}
