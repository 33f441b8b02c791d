// Package crash lets a test kill the process at a named point of its work, as an outside SIGKILL
// does. In a process without Arm, as in each daemon outside of tests, At does nothing.
//
// purchase and compat document their points.
package crash

import (
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// trap is the point at which the process dies; nil = none.
var trap *point

type point struct {
	name   string
	turn   int64 // the pass to die at, from 1
	passed atomic.Int64
}

// Arm selects the point at which the process kills itself: "POINT" at its first pass, "POINT:N" at
// the N-th, "" at none. It panics if N is not a number from 1 on. It must be called before any call
// of At.
func Arm(at string) {
	if at == "" {
		return
	}
	name, nth, later := strings.Cut(at, ":")
	turn := int64(1)
	if later {
		var err error
		if turn, err = strconv.ParseInt(nth, 10, 64); err != nil || turn < 1 {
			panic("crash: " + strconv.Quote(at) + " is no POINT and no POINT:N with N from 1 on")
		}
	}
	trap = &point{name: name, turn: turn}
}

// At kills the process if it is armed for the point.
func At(name string) {
	if trap == nil || trap.name != name {
		return
	}
	if trap.passed.Add(1) == trap.turn {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // nothing more happens here
	}
}
