package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/logging"

	"poold/internal/targets"
)

// embeddedTick is the interval at which the clock of the embedded Redis advances.
const embeddedTick = 50 * time.Millisecond

// embeddedRedis is a Redis server inside this process. It loses its data at a restart and is about
// ten times slower than a real server.
type embeddedRedis struct{ *miniredis.Miniredis }

// openRedis returns the address of the configured Redis. If the file selects the embedded Redis,
// openRedis also starts this Redis and returns it, and the caller must close it. Otherwise the
// second result is nil.
func openRedis(wanted targets.Redis) (address string, own *embeddedRedis, err error) {
	logging.Disable() // it reports each failed dial, and package redisdb logs an outage once
	if !wanted.Embedded() {
		return wanted.URL.Reveal(), nil, nil
	}
	own = &embeddedRedis{miniredis.NewMiniRedis()}
	if err := own.Start(); err != nil {
		return "", nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return "redis://" + own.Addr(), own, nil
}

// run advances the clock of the embedded Redis until ctx ends, so that keys expire.
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
