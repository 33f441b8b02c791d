//go:build race

package testkit

// RaceEnabled reports whether the race detector is on.
const RaceEnabled = true
