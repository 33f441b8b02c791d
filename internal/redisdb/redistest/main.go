package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// Main is a TestMain. Main silences the log of go-redis, because tests break connections. Main fails
// if a goroutine still runs after the tests.
func Main(m *testing.M) {
	logging.Disable()
	// If a test kills a server, go-redis continues to dial the server for a second after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
