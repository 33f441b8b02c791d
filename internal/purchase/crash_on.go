//go:build crashpoints

package purchase

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	crashPoint, crashTurn, _ = strings.Cut(os.Getenv("POOLD_TEST_CRASH"), ":")
	crashPassed              atomic.Int64
)

// crash kills the process, as SIGKILL from outside does, at the point that the
// environment names: POOLD_TEST_CRASH=POINT, or POINT:N for the N-th pass.
func crash(point string) {
	if point != crashPoint {
		return
	}
	turn, err := strconv.ParseInt(crashTurn, 10, 64)
	if err != nil {
		turn = 1
	}
	if crashPassed.Add(1) == turn {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more happens here
	}
}
