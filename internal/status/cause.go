package status

import (
	"cmp"
	"slices"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// Cause explains the state of a target. The page, /status.json and the responses to callers without
// a token all show the Cause that CauseOf returns.
type Cause struct {
	State string // Target.State in the document
	// Reason is a sentence. If the solving service is the cause, Reason quotes the service. "" = the
	// state is normal.
	Reason string
	Outage bool // the reason is that all providers are down
}

// refusedPrefix begins the reason of a refused target.
const refusedPrefix = "the provider refuses this target: "

// CauseOf determines the cause from the refill status and the counts of a target. The argument
// outageReason explains why all providers are down; "" = a provider is up. A pause has the highest
// priority. The target's other causes come next, then the outage.
func CauseOf(t *targets.Target, refilling refill.Status, c *pool.Counts, outageReason string) Cause {
	state, reason := refilling.State, refilling.Reason
	switch {
	case state == refill.Refused:
		return Cause{State: state, Reason: refusedPrefix + reason + nextTry(t.Name, refilling)}
	case state == refill.Budget:
		return Cause{State: state, Reason: cmp.Or(reason, "the budget is used up")}
	case state == refill.Paused:
		return Cause{State: state, Reason: reason}
	case state == refill.OK && reason == "" && c.Status == "":
		reason = "starting" // no replica has decided yet
	case state == refill.OK && reason == "" && isIdle(t, refilling, c):
		state, reason = StateIdle, "no caller asked for a while, so no token is kept"
	}
	if outageReason == "" {
		return Cause{State: state, Reason: reason}
	}
	if coming := c.Fresh + c.Orders; refilling.Want > coming || c.Waiting > coming {
		state = refill.Starved
	}
	return Cause{State: state, Reason: outageReason, Outage: true}
}

// nextTry returns a clause with the time of a refused target's next order; "" = the time is
// unknown.
func nextTry(target string, refilling refill.Status) string {
	if refilling.Until.IsZero() {
		return ""
	}
	return "; the next order is tried at " + refilling.Until.UTC().Format("15:04:05") + " UTC, or at once after `poold resume " + target + "`"
}

// isIdle reports whether a target wants no tokens because it has no requests.
func isIdle(t *targets.Target, refilling refill.Status, c *pool.Counts) bool {
	return refilling.Want == 0 && c.Waiting == 0 &&
		(refilling.Limit == policy.LimitIdle || refilling.Limit == policy.LimitNone && t.Refill == targets.RefillAdaptive)
}

// States lists all states of targets, the most urgent first.
func States() []string {
	return []string{refill.Refused, refill.Starved, refill.Budget, refill.Paused, refill.OK, StateIdle}
}

// ProblemsFirst returns the targets sorted by urgency, the most urgent first. A target with a mark
// comes before the targets without a mark whose state is paused, ok or idle. The script
// page/web/status.js uses the same order.
func ProblemsFirst(list []Target) []Target {
	states := States()
	rank := func(t Target) int {
		at := slices.Index(states, t.State)
		if at >= slices.Index(states, refill.Paused) {
			at++
			if len(t.Marks) > 0 {
				at = slices.Index(states, refill.Paused)
			}
		}
		return at
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b Target) int { return rank(a) - rank(b) })
}
