package status

import (
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// The cause of a target's state: a pause comes first, then the other causes of the target, and then
// an outage. During an outage, a target is starved if it lacks tokens for its policy or for pending
// callers.
func TestCauseOf(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("here", 3600) // texts are in UTC in every time zone of the daemon
	t.Cleanup(func() { time.Local = here })
	const outage = "provider solver is down"
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	busy := refill.Status{State: refill.OK, Want: 3}
	for name, c := range map[string]struct {
		undecided bool // no replica has decided yet
		target    targets.Target
		refill    refill.Status
		counts    pool.Counts
		outage    string
		state     string
		reason    string
		is        bool // the reason is the outage of all providers
	}{
		"normal":   {refill: busy, state: refill.OK},
		"starting": {undecided: true, refill: refill.Status{State: refill.OK, Want: 3}, state: refill.OK, reason: "starting"},
		"starved":  {refill: refill.Status{State: refill.Starved, Reason: "busy"}, state: refill.Starved, reason: "busy"},

		"starting, in an outage": {undecided: true, refill: busy, outage: outage, state: refill.Starved, reason: outage, is: true},

		"paused": {refill: refill.Status{State: refill.Paused, Reason: "paused by ops", Want: 3}, outage: outage,
			state: refill.Paused, reason: "paused by ops; `poold resume login` ends the pause"},

		"refused": {refill: refill.Status{State: refill.Refused, Reason: "bad"}, outage: outage,
			state: refill.Refused, reason: "bad"},
		"refused, with a retry": {refill: refill.Status{State: refill.Refused, Reason: "bad", Until: until},
			state: refill.Refused, reason: "bad; the next order is tried at 03:04:05 UTC, or at once after `poold resume login`"},
		"budget": {refill: refill.Status{State: refill.Budget}, outage: outage, state: refill.Budget,
			reason: "the budget is used up"},
		"which budget": {refill: refill.Status{State: refill.Budget, Reason: "the overall budget"}, state: refill.Budget,
			reason: "the overall budget"},

		"idle": {target: targets.Target{Refill: targets.RefillAdaptive},
			refill: refill.Status{State: refill.OK}, state: StateIdle, reason: "no caller asked for a while, so no token is kept"},
		"idle by the limit": {target: targets.Target{Refill: targets.RefillFixed},
			refill: refill.Status{State: refill.OK, Limit: policy.LimitIdle}, state: StateIdle,
			reason: "no caller asked for a while, so no token is kept"},
		"wants none by another rule": {target: targets.Target{Refill: targets.RefillAdaptive},
			refill: refill.Status{State: refill.OK, Limit: policy.LimitCredit}, state: refill.OK},
		"fixed, wants none": {target: targets.Target{Refill: targets.RefillFixed},
			refill: refill.Status{State: refill.OK}, state: refill.OK},
		"not idle with callers": {target: targets.Target{Refill: targets.RefillAdaptive},
			refill: refill.Status{State: refill.OK}, counts: pool.Counts{Waiting: 1}, state: refill.OK},

		"avoids a provider": {target: targets.Target{ProvidersPolicy: targets.ProvidersBest}, refill: busy,
			counts: pool.Counts{Brake: pool.Brake{Avoid: []string{"acme"}}}, state: refill.OK,
			reason: "orders avoid provider acme for up to ten minutes: orders there failed or were refused"},
		"does not avoid with the policy ordered": {target: targets.Target{ProvidersPolicy: targets.ProvidersOrdered},
			refill: busy, counts: pool.Counts{Brake: pool.Brake{Avoid: []string{"acme"}}}, state: refill.OK},

		"outage, and enough": {refill: busy, counts: pool.Counts{Fresh: 2, Orders: 1}, outage: outage,
			state: refill.OK, reason: "nothing new is bought: " + outage, is: true},
		"outage, and only orders": {refill: busy, counts: pool.Counts{Orders: 3}, outage: outage,
			state: refill.Starved, reason: outage, is: true},
		"outage, and too few": {refill: busy, counts: pool.Counts{Fresh: 1, Orders: 1}, outage: outage,
			state: refill.Starved, reason: outage, is: true},
		"outage, and idle": {target: targets.Target{Refill: targets.RefillAdaptive},
			refill: refill.Status{State: refill.OK}, outage: outage, state: StateIdle, reason: outage, is: true},
		"outage, wants none, with callers": {refill: refill.Status{State: refill.OK}, counts: pool.Counts{Waiting: 1},
			outage: outage, state: refill.Starved, reason: outage, is: true},
		"outage, callers will be served": {refill: refill.Status{State: refill.OK},
			counts: pool.Counts{Waiting: 2, Fresh: 1, Orders: 1}, outage: outage, state: refill.OK,
			reason: "nothing new is bought: " + outage, is: true},
		"outage, one caller too many": {refill: refill.Status{State: refill.OK, Want: 2},
			counts: pool.Counts{Waiting: 3, Fresh: 1, Orders: 1}, outage: outage, state: refill.Starved, reason: outage, is: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.target.Name = "login"
			if !c.undecided {
				c.counts.Status = "{}"
			}
			got := CauseOf(&c.target, c.refill, &c.counts, c.outage)
			if want := (Cause{State: c.state, Reason: c.reason, Outage: c.is}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
