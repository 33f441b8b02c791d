//go:build crashpoints

package crash

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	name, nth, _ = strings.Cut(os.Getenv("POOLD_TEST_CRASH"), ":")
	passed       atomic.Int64
)

// At kills the process where the environment names the point.
func At(point string) {
	if point != name {
		return
	}
	turn, err := strconv.ParseInt(nth, 10, 64)
	if err != nil {
		turn = 1
	}
	if passed.Add(1) == turn {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more happens here
	}
}
