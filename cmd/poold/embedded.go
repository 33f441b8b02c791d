package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// embeddedTick is how often the embedded Redis learns that time has passed.
const embeddedTick = 50 * time.Millisecond

// startEmbedded starts the in-process Redis and returns its address. It keeps
// nothing over a restart and is about ten times slower than a real one.
func startEmbedded() (*miniredis.Miniredis, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return server, nil
}

// tick makes its keys expire, which they do not do by themselves, until ctx ends.
func tick(ctx context.Context, server *miniredis.Miniredis) error {
	ticker := time.NewTicker(embeddedTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			server.FastForward(now.Sub(last))
			last = now
		}
	}
}
