// Package backoff computes the pauses of retry loops and of periodic work. Every pause is random,
// so that replicas that failed together do not retry together. The package logs nothing and starts
// no goroutine.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Doubling is a pause that doubles with each failure in a row, from First up to Most.
type Doubling struct{ First, Most time.Duration }

// Pause returns the pause after the n-th failure in a row; n counts from 1. The result is a random
// duration from 50 % to 150 % of the doubled pause.
func (d Doubling) Pause(n int) time.Duration {
	const mostDoublings = 20 // beyond every Most, and far below an overflow
	return Around(min(d.First<<min(n-1, mostDoublings), d.Most), 0.5)
}

// Wait sleeps for the pause after the n-th failure in a row. If ctx ends during the pause, Wait
// returns the error of ctx.
func (d Doubling) Wait(ctx context.Context, n int) error { return Sleep(ctx, d.Pause(n)) }

// Around returns a random duration that differs from d by at most the given share of d.
func Around(d time.Duration, share float64) time.Duration {
	most := time.Duration(float64(d) * share)
	return d - most + UpTo(2*most+1)
}

// UpTo returns a random duration in [0, d), or 0 if d is not positive.
func UpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // G404: no secret depends on the random number
}

// Sleep returns nil after the duration d, or the error of ctx if ctx ends earlier. Sleep checks ctx
// even if d is not positive.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
