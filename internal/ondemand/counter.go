package ondemand

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"poold/internal/pool"
)

// countEvery is how often requests are written down.
const countEvery = time.Second

// counter counts the requests that shared no token, by how they came by theirs. It is
// safe for concurrent use.
type counter struct {
	savings Savings
	log     *slog.Logger

	mu       sync.Mutex
	requests map[pool.SavingsSource]int // not written down yet
}

// savedBy is what a source is counted as.
var savedBy = map[pool.Source]pool.SavingsSource{
	pool.FromPool: pool.SavedPool, FromSolve: pool.SavedSolve, pool.FromReplay: pool.SavedReplay,
}

func (c *counter) count(source pool.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[savedBy[source]]++
}

// run writes down what was counted, the last of it when ctx has ended.
func (c *counter) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, countEvery)
		c.write(context.WithoutCancel(ctx))
	}
}

// write writes it down; what cannot be written waits for the next time.
func (c *counter) write(ctx context.Context) {
	c.mu.Lock()
	counted := c.requests
	c.requests = map[pool.SavingsSource]int{}
	c.mu.Unlock()
	if len(counted) == 0 {
		return
	}
	err := c.savings.Count(ctx, counted)
	if err == nil {
		return
	}
	c.log.Debug("savings not counted yet", "err", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for source, n := range counted {
		c.requests[source] += n
	}
}
