// Package crash lets a test kill the process at a named point of its work, like an external SIGKILL.
// Only tests call Arm. Without Arm, At does nothing.
//
// Packages purchase and compat document their crash points.
package crash

import (
	"cmp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	armed string       // the point at which the process kills itself; "" = none
	left  atomic.Int64 // passes of this point until then
)

// Arm selects the point at which the process kills itself. "POINT" means the first pass of the point,
// "POINT:N" means its N-th pass, and "" means no point. Arm must be called before any call of At.
func Arm(at string) {
	point, nth, _ := strings.Cut(at, ":")
	n, _ := strconv.ParseInt(cmp.Or(nth, "1"), 10, 64) // of a test that would notice a mistake
	armed = point
	left.Store(n)
}

// At kills the process if Arm has selected this pass of the named point.
func At(name string) {
	if name == armed && left.Add(-1) == 0 {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the goroutine must not continue before the signal arrives
	}
}
