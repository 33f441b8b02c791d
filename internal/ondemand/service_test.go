package ondemand

import (
	"context"
	"testing"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// A request without a token counts as missed if a token could have come, and as refused if not.
func TestRequestsWithoutATokenAreMissedOrRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		want dedup.SavingsSource
	}{
		{&pool.EmptyError{}, dedup.SavedMissed},
		{context.Canceled, dedup.SavedMissed},
		{context.DeadlineExceeded, dedup.SavedMissed},
		{&SolveError{Reason: "unsolvable"}, dedup.SavedMissed},
		{&SolveError{Refused: true}, dedup.SavedRefused},
		{&BudgetError{}, dedup.SavedRefused},
		{&OutageError{}, dedup.SavedRefused},
		{&pool.RateError{}, dedup.SavedRefused},
		{pool.ErrConflict, dedup.SavedRefused},
		{pool.ErrClosed, dedup.SavedRefused},
		{redisdb.ErrDown, dedup.SavedRefused},
	} {
		counted := &counter{requests: map[dedup.SavingsSource]int{}}
		counted.countFailure(c.err)
		if len(counted.requests) != 1 || counted.requests[c.want] != 1 {
			t.Errorf("%T %v counts as %v, want %s", c.err, c.err, counted.requests, c.want)
		}
	}
}
