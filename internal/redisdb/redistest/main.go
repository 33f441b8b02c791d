package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Main is a TestMain: it silences go-redis' own log, because tests cut its connections, and
// fails if a goroutine is left behind.
func Main(m *testing.M) {
	redis.SetLogger(silence{})
	// After a server was killed, go-redis tries to dial it for a second after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
