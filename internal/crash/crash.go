// Package crash lets a test kill the process at a named point of its work, like an external SIGKILL.
// Only tests call Arm. Without Arm, At does nothing.
//
// Packages purchase and compat document their crash points.
package crash

import (
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// trap is the point at which the process kills itself; nil = no point.
var trap *point

type point struct {
	name   string
	turn   int64 // number of the pass that kills the process, from 1
	passed atomic.Int64
}

// Arm selects the point at which the process kills itself. "POINT" means the first pass of the point,
// "POINT:N" means its N-th pass, and "" means no point. Arm panics if N is not a positive number. Arm
// must be called before any call of At.
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

// At kills the process if Arm has selected this pass of the named point.
func At(name string) {
	if trap == nil || trap.name != name {
		return
	}
	if trap.passed.Add(1) == trap.turn {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the goroutine must not continue before the signal arrives
	}
}
