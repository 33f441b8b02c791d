package history

import (
	"context"
	"math/rand/v2"
	"time"
)

// A store that does not answer is tried again after firstPause, then after twice as long,
// up to mostPause.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

// backoff is how long was waited last for a store that does not answer; 0 = it does. It
// belongs to one goroutine.
type backoff time.Duration

// wait waits before the store is tried again.
func (b *backoff) wait(ctx context.Context) {
	pause := min(max(firstPause, 2*time.Duration(*b)), mostPause)
	*b = backoff(pause)
	select {
	case <-ctx.Done():
	case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // G404: jitter
	}
}
