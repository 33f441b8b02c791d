package ondemand

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
)

// countEvery is how often requests are written down.
const countEvery = time.Second

// counter counts the requests by how they ended, but for those that shared a token. It is
// safe for concurrent use.
type counter struct {
	savings Savings
	guests  Guests
	log     *slog.Logger

	mu       sync.Mutex
	requests map[dedup.SavingsSource]int // not written down yet
	// Requests for guests that their stock does not count, not written down yet.
	refused, replays int
}

// savedBy is what a source is counted as. A token is shared from memory only with callers
// that waited for its solve.
var savedBy = map[pool.Source]dedup.SavingsSource{
	pool.FromPool: dedup.SavedPool, FromSolve: dedup.SavedSolve, FromShared: dedup.SavedWaiting, pool.FromReplay: dedup.SavedReplay,
}

// failed counts a request that got no token.
func (c *counter) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[failedBy(err)]++
}

// failedBy is what a request that got no token is counted as.
func failedBy(err error) dedup.SavingsSource {
	empty, solve := (*pool.EmptyError)(nil), (*SolveError)(nil)
	switch {
	case errors.As(err, &empty), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &solve) && !solve.Refused:
		return dedup.SavedMissed
	}
	return dedup.SavedRefused
}

// refusedGuest counts a request for a guest that was refused before it asked the stock.
func (c *counter) refusedGuest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
}

// joinedGuest counts a request for a guest that joined a wait and got its token.
func (c *counter) joinedGuest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replays++
}

func (c *counter) count(source pool.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[savedBy[source]]++
}

// run writes down what was counted, the last of it when ctx has ended.
func (c *counter) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = backoff.Sleep(ctx, countEvery)
		c.write(context.WithoutCancel(ctx))
	}
}

// write writes down what was counted. If it cannot be written it waits for the next time.
func (c *counter) write(ctx context.Context) {
	c.mu.Lock()
	counted, refused, replays := c.requests, c.refused, c.replays
	c.requests, c.refused, c.replays = map[dedup.SavingsSource]int{}, 0, 0
	c.mu.Unlock()
	if len(counted) > 0 {
		if err := c.savings.Count(ctx, counted); err != nil {
			c.log.Debug("savings not counted yet", "err", err)
			c.mu.Lock()
			for source, n := range counted {
				c.requests[source] += n
			}
			c.mu.Unlock()
		}
	}
	if refused+replays > 0 {
		if err := c.guests.Count(ctx, refused, replays); err != nil {
			c.log.Debug("requests for guests not counted yet", "err", err)
			c.mu.Lock()
			c.refused, c.replays = c.refused+refused, c.replays+replays
			c.mu.Unlock()
		}
	}
}
