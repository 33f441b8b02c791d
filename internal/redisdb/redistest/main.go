package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Main is a TestMain. Main silences the log of go-redis, because tests break connections. Main fails
// if a goroutine still runs after the tests.
func Main(m *testing.M) {
	redis.SetLogger(silence{})
	// If a test kills a server, go-redis continues to dial the server for a second after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
