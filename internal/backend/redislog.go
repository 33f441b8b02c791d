package backend

import (
	"context"
	"fmt"
	"log/slog"
)

// RedisLog sends the messages of go-redis to Log at level debug. go-redis reports each failed
// dial, whereas the pool logs an outage of Redis once.
type RedisLog struct{ Log *slog.Logger }

// Printf implements the logger of go-redis.
func (r RedisLog) Printf(ctx context.Context, format string, args ...any) {
	r.Log.DebugContext(ctx, fmt.Sprintf(format, args...))
}
