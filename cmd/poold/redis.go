package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"poold/internal/backend"
	"poold/internal/targets"
)

// embeddedTick is how often the embedded Redis learns that time has passed.
const embeddedTick = 50 * time.Millisecond

// embeddedRedis is the Redis in this process. It keeps nothing over a restart and is
// about ten times slower than a real one.
type embeddedRedis struct{ *miniredis.Miniredis }

// openRedis returns the address of the file's Redis. Where that is the embedded
// one it is started, and returned too: the caller closes it.
func openRedis(wanted targets.Redis, log *slog.Logger) (address string, own *embeddedRedis, err error) {
	redis.SetLogger(backend.RedisLog{Log: log})
	if !wanted.Embedded() {
		return wanted.URL.Reveal(), nil, nil
	}
	own = &embeddedRedis{miniredis.NewMiniRedis()}
	if err := own.Start(); err != nil {
		return "", nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return "redis://" + own.Addr(), own, nil
}

// run makes keys expire, which they do not do by themselves, until ctx ends.
func (e *embeddedRedis) run(ctx context.Context) error {
	ticker := time.NewTicker(embeddedTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			e.FastForward(now.Sub(last))
			last = now
		}
	}
}
