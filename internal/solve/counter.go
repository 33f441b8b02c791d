package solve

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

// Savings keeps the counts of requests by outcome; both claim stores do.
type Savings interface {
	Count(ctx context.Context, requests map[dedup.SavingsSource]int) error
}

// counter counts requests by outcome.
type counter struct {
	savings Savings
	log     *slog.Logger

	mu       sync.Mutex
	requests map[dedup.SavingsSource]int // not written yet
}

var savedBy = map[pool.Source]dedup.SavingsSource{
	pool.FromPool: dedup.SavedPool, FromSolve: dedup.SavedSolve, pool.FromReplay: dedup.SavedReplay,
}

// count counts a request. Without a token it is missed if a token could have come, else refused.
func (c *counter) count(source pool.Source, err error) {
	counted := savedBy[source]
	if err != nil {
		empty, failed := (*pool.EmptyError)(nil), (*SolveError)(nil)
		switch counted = dedup.SavedRefused; {
		case errors.As(err, &empty), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
			errors.As(err, &failed) && !failed.Refused:
			counted = dedup.SavedMissed
		}
	}
	c.add(map[dedup.SavingsSource]int{counted: 1})
}

func (c *counter) add(requests map[dedup.SavingsSource]int) {
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
	c.requests = map[dedup.SavingsSource]int{}
	c.mu.Unlock()
	if len(counted) == 0 {
		return
	}
	if err := c.savings.Count(ctx, counted); err != nil {
		c.log.Debug("counts of requests not written; the next write has them", "err", err)
		c.add(counted)
	}
}
