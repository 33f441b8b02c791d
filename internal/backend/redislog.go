package backend

import (
	"context"
	"fmt"
	"log/slog"
)

// RedisLog writes the messages of go-redis to Log. The level is debug, because go-redis reports
// each failed dial, and poold itself logs an outage of Redis once.
type RedisLog struct{ Log *slog.Logger }

// Printf implements the logger interface of go-redis.
func (r RedisLog) Printf(ctx context.Context, format string, args ...any) {
	r.Log.DebugContext(ctx, "message of the redis client", "err", fmt.Sprintf(format, args...))
}
