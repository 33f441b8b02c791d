package solve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"poold/internal/pool"
)

// countEvery is the interval between two writes of the counts.
const countEvery = time.Second

// counter counts requests by outcome.
type counter struct {
	pool *pool.Pool
	log  *slog.Logger

	mu       sync.Mutex
	requests map[pool.SavingsSource]int // not written yet
}

var savedBy = map[pool.Source]pool.SavingsSource{
	pool.FromPool: pool.SavedPool, pool.FromSolve: pool.SavedSolve, FromShared: pool.SavedWaiting, pool.FromReplay: pool.SavedReplay,
}

// count counts a request. Without a token it is missed if a token could have come, else refused.
func (c *counter) count(got outcome) {
	counted := savedBy[got.token.Source]
	if got.late {
		counted = pool.SavedAfter
	}
	if got.err != nil {
		empty, failed := (*pool.EmptyError)(nil), (*SolveError)(nil)
		switch counted = pool.SavedRefused; {
		case errors.As(got.err, &empty), errors.Is(got.err, context.Canceled), errors.Is(got.err, context.DeadlineExceeded),
			errors.As(got.err, &failed) && !failed.Refused:
			counted = pool.SavedMissed
		}
	}
	c.add(map[pool.SavingsSource]int{counted: 1})
}

func (c *counter) add(requests map[pool.SavingsSource]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for source, n := range requests {
		c.requests[source] += n
	}
}

func (c *counter) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(countEvery):
		}
		c.write(context.WithoutCancel(ctx))
	}
}

// write writes the counts. Those of a failed write are kept for the next one.
func (c *counter) write(ctx context.Context) {
	c.mu.Lock()
	counted := c.requests
	c.requests = map[pool.SavingsSource]int{}
	c.mu.Unlock()
	if len(counted) == 0 {
		return
	}
	if err := c.pool.Save(ctx, counted); err != nil {
		c.log.Debug("counts of requests not written; the next write has them", "err", err)
		c.add(counted)
	}
}
