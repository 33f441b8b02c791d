package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The cause of a target's state: a pause comes first, then the other causes of the target, and then
// an outage. During an outage, a target is starved if it lacks tokens for its policy or for pending
// callers. testdata/causes.txt has the state and the reason.
func TestCauseOf(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("here", 3600) // texts are in UTC in every time zone of the daemon
	t.Cleanup(func() { time.Local = here })
	const outage = "provider solver is down"
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	busy, content := refill.Status{State: refill.OK, Want: 3}, refill.Status{State: refill.OK}
	adaptive := targets.Target{Refill: targets.RefillAdaptive}
	var text strings.Builder
	for _, c := range []struct {
		name      string
		undecided bool // no replica has decided yet
		target    targets.Target
		refill    refill.Status
		counts    pool.Counts
		outage    string
	}{
		{name: "normal", refill: busy},
		{name: "starting", undecided: true, refill: busy},
		{name: "starved", refill: refill.Status{State: refill.Starved, Reason: "busy"}},
		{name: "starting, in an outage", undecided: true, refill: busy, outage: outage},
		{name: "paused", refill: refill.Status{State: refill.Paused, Reason: "paused by ops", Want: 3}, outage: outage},
		{name: "refused", refill: refill.Status{State: refill.Refused, Reason: "bad"}, outage: outage},
		{name: "refused, with a retry", refill: refill.Status{State: refill.Refused, Reason: "bad", Until: until}},
		{name: "budget", refill: refill.Status{State: refill.Budget}, outage: outage},
		{name: "which budget", refill: refill.Status{State: refill.Budget, Reason: "the overall budget"}},
		{name: "idle", target: adaptive, refill: content},
		{name: "idle by the limit", target: targets.Target{Refill: targets.RefillFixed},
			refill: refill.Status{State: refill.OK, Limit: policy.LimitIdle}},
		{name: "wants none by another rule", target: adaptive,
			refill: refill.Status{State: refill.OK, Limit: policy.LimitCredit}},
		{name: "fixed, wants none", target: targets.Target{Refill: targets.RefillFixed}, refill: content},
		{name: "not idle with callers", target: adaptive, refill: content, counts: pool.Counts{Waiting: 1}},
		{name: "avoids a provider", target: targets.Target{ProvidersPolicy: targets.ProvidersBest}, refill: busy,
			counts: pool.Counts{Brake: pool.Brake{Avoid: []string{"acme"}}}},
		{name: "avoids a provider, with its last failure",
			target: targets.Target{ProvidersPolicy: targets.ProvidersBest}, refill: busy,
			counts: pool.Counts{Brake: pool.Brake{Avoid: []string{"acme"}},
				Failures: []pool.Failure{{Reason: "provider acme refuses it"}, {Reason: "provider acme was slow"}}}},
		{name: "does not avoid with the policy ordered", target: targets.Target{ProvidersPolicy: targets.ProvidersOrdered},
			refill: busy, counts: pool.Counts{Brake: pool.Brake{Avoid: []string{"acme"}}}},
		{name: "outage, and enough", refill: busy, counts: pool.Counts{Fresh: 2, Orders: 1}, outage: outage},
		{name: "outage, and only orders", refill: busy, counts: pool.Counts{Orders: 3}, outage: outage},
		{name: "outage, and too few", refill: busy, counts: pool.Counts{Fresh: 1, Orders: 1}, outage: outage},
		{name: "outage, and idle", target: adaptive, refill: content, outage: outage},
		{name: "outage, wants none, with callers", refill: content, counts: pool.Counts{Waiting: 1}, outage: outage},
		{name: "outage, callers will be served", refill: content, counts: pool.Counts{Waiting: 2, Fresh: 1, Orders: 1},
			outage: outage},
		{name: "outage, one caller too many", refill: refill.Status{State: refill.OK, Want: 2},
			counts: pool.Counts{Waiting: 3, Fresh: 1, Orders: 1}, outage: outage},
	} {
		c.target.Name = "login"
		if !c.undecided {
			c.counts.Status = "{}"
		}
		fmt.Fprintf(&text, "%s: %+v\n", c.name, CauseOf(&c.target, c.refill, &c.counts, c.outage))
	}
	testkit.Published(t, "testdata/causes.txt", text.String())
}
