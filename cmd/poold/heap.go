package main

import (
	"os"
	"runtime/debug"
	"sync"
)

// gcPercent replaces Go's default of 100. The live heap is a few megabytes, so a garbage collection
// at four times that size costs little memory. The higher value saves about a sixth of the CPU time
// of a take (bench/takes).
const gcPercent = 400

// manyTargets is the number of targets from which Go's default applies. The live heap is then above
// 10 MB, and grows by 5 MB for each further 1,000 targets.
const manyTargets = 1000

// heap chooses the percentage of the garbage collector: gcPercent, or Go's default while the heap
// holds many targets or large request bodies, because gcPercent would multiply their memory. The
// environment variable GOGC overrides both.
type heap struct {
	mu      sync.Mutex
	bodies  bool // whether the heap holds large bodies
	targets bool // whether the heap holds many targets
}

func (h *heap) setTargets(n int) { h.set(&h.targets, n > manyTargets) }

func (h *heap) set(large *bool, is bool) {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	*large = is
	percent := gcPercent
	if h.bodies || h.targets {
		percent = 100
	}
	debug.SetGCPercent(percent)
}
