package ondemand

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
)

// countEvery is the interval between two writes of the counts.
const countEvery = time.Second

// counter counts requests by outcome. It does not count requests that shared a token, because
// Claims.Enter counts them. A counter is safe for concurrent use.
type counter struct {
	savings Savings
	guests  Guests
	log     *slog.Logger

	mu       sync.Mutex
	requests map[dedup.SavingsSource]int // counts that are not yet written
	// Counts that are not yet written: of the requests for guests, these are the ones that the stock
	// does not count.
	refused, replays int
}

// savedBy maps the source of a token to the source under which the savings count the request.
// FromShared maps to SavedWaiting, because only callers that waited for the solve share its token
// from memory.
var savedBy = map[pool.Source]dedup.SavingsSource{
	pool.FromPool: dedup.SavedPool, FromSolve: dedup.SavedSolve, FromShared: dedup.SavedWaiting, pool.FromReplay: dedup.SavedReplay,
}

// count counts a request that got a token.
func (c *counter) count(source pool.Source) { c.add(savedBy[source], 1) }

// countFailure counts a request that got no token.
func (c *counter) countFailure(err error) {
	empty, solve := (*pool.EmptyError)(nil), (*SolveError)(nil)
	switch {
	case errors.As(err, &empty), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &solve) && !solve.Refused:
		c.add(dedup.SavedMissed, 1)
	default:
		c.add(dedup.SavedRefused, 1)
	}
}

func (c *counter) add(source dedup.SavingsSource, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[source] += n
}

// countGuests counts requests for guests. The argument refused is the number of requests that were
// refused before they reached the stock. The argument replays is the number of requests that joined
// the wait of an equal request and got the same token.
func (c *counter) countGuests(refused, replays int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused += refused
	c.replays += replays
}

// run writes the counts periodically until ctx ends, and a last time after that.
func (c *counter) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, countEvery)
		c.write(context.WithoutCancel(ctx))
	}
}

// write writes the counts. If a write fails, its counts are kept for the next call.
func (c *counter) write(ctx context.Context) {
	c.mu.Lock()
	counted, refused, replays := c.requests, c.refused, c.replays
	c.requests, c.refused, c.replays = map[dedup.SavingsSource]int{}, 0, 0
	c.mu.Unlock()
	if len(counted) > 0 {
		if err := c.savings.Count(ctx, counted); err != nil {
			c.log.Debug("savings not written; the next write has them", "err", err)
			for source, n := range counted {
				c.add(source, n)
			}
		}
	}
	if refused+replays > 0 {
		if err := c.guests.Count(ctx, refused, replays); err != nil {
			c.log.Debug("requests for guests not counted; the next write has them", "err", err)
			c.countGuests(refused, replays)
		}
	}
}
