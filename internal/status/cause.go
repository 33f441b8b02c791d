package status

import (
	"cmp"

	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// Cause is why a target is as it is. The page, /status.json and the answers to callers who
// got no token have it from CauseOf, so that all say the same.
type Cause struct {
	State string // of the target, as in the document
	// Reason is a sentence, in the service's words where they are the cause; "" = there is
	// nothing to explain.
	Reason string
	Outage bool // the reason is that no provider can be asked
}

// Starting is what refill would say of a target that no worker refills yet.
var Starting = refill.Status{State: refill.OK, Reason: "starting", Lead: unknownLead}

// CauseOf finds the cause for a target, of which refill and the stock say this. outage is
// why no provider can be asked; "" = one can. What is the target's own matter goes before
// that, since it says more, and a pause before all: it explains an empty pool better than
// anything else.
func CauseOf(t *targets.Target, refilling refill.Status, stock *pool.Stock, outage string) Cause {
	state, reason := refilling.State, refilling.Reason
	switch {
	case t.Paused:
		return Cause{State: refill.Paused, Reason: "paused in the configuration file"}
	case stock.Paused:
		return Cause{State: refill.Paused, Reason: pauseReason(t.Name, stock.Pause)}
	case stock.Err != nil && (state == refill.OK || state == refill.Starved):
		return Cause{State: refill.Starved, Reason: redisdb.Reason(stock.Err) + "; the figures are the last known ones"}
	case state == refill.Paused && stock.Err == nil:
		// Whether it still is, the file and the stock know better: a worker notices the
		// end of a pause a moment later.
		state, reason = refill.OK, ""
	}
	switch state {
	case refill.Refused:
		return Cause{State: state, Reason: "the provider refuses this target: " + reason + nextTry(t.Name, refilling)}
	case refill.Budget:
		return Cause{State: state, Reason: cmp.Or(reason, "the budget is used up")}
	case refill.Paused:
		return Cause{State: state, Reason: reason}
	}
	if state == refill.OK && reason == "" && isIdle(t, refilling, stock) {
		state, reason = StateIdle, "nobody asked for a while, so none is kept"
	}
	if outage == "" {
		return Cause{State: state, Reason: reason}
	}
	if coming := stock.Fresh + stock.Orders; refilling.Want > coming || stock.Waiting > coming {
		state = refill.Starved
	}
	return Cause{State: state, Reason: outage, Outage: true}
}

// nextTry says when a refused target is tried again.
func nextTry(target string, refilling refill.Status) string {
	if refilling.Until.IsZero() {
		return ""
	}
	return "; the next order is tried at " + refilling.Until.UTC().Format("15:04:05") + " UTC, or at once after `poold resume " + target + "`"
}

// isIdle reports whether a target wants nothing because nobody asks for it.
func isIdle(t *targets.Target, refilling refill.Status, stock *pool.Stock) bool {
	return refilling.Want == 0 && stock.Waiting == 0 &&
		(refilling.Limit == policy.LimitIdle || refilling.Limit == policy.LimitNone && t.Refill == targets.RefillAdaptive)
}

// pauseReason says who paused a target, until when and why, as far as that is known.
func pauseReason(target string, p pool.Pause) string {
	text := "paused by POST /pool/" + target + "/pause"
	if p.By != "" {
		text = "paused by " + p.By
	}
	if !p.Until.IsZero() {
		text += " until " + p.Until.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
