package status

import (
	"slices"

	"poold/internal/refill"
)

// States are the states of a target, those that need a person first.
func States() []string {
	return []string{refill.Refused, refill.Starved, refill.Budget, refill.Paused, refill.OK, StateIdle}
}

// ProblemsFirst sorts targets by what a person should look at first, without altering the
// list; what is off by intent comes late. web/status.js has the same order.
func ProblemsFirst(list []Target) []Target {
	states := States()
	rank := func(t Target) int {
		at := slices.Index(states, t.State)
		if at >= slices.Index(states, refill.Paused) {
			at++ // a target with a mark comes before these
			if len(t.Marks) > 0 {
				at = slices.Index(states, refill.Paused)
			}
		}
		return at
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b Target) int { return rank(a) - rank(b) })
}
