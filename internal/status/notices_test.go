package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// A fault of Redis is an alarm; a provider that is down is one only if all are. A line says since when (in UTC, in every
// time zone of the daemon), why, what follows from it and what to do.
func TestAlarmsAndNotices(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("here", 3600)
	t.Cleanup(func() { time.Local = here })
	refuses := purchase.Status{Name: "main", State: provider.State{
		Kind: provider.StateDown, Reason: "ERROR_WRONG_USER_KEY", Fault: "refuses the key",
		Remedy: "put the right key into pools.yaml", Since: day.Add(-2 * time.Minute),
	}}
	silent := purchase.Status{Name: "other", State: provider.State{Kind: provider.StateDown, Reason: "no proper answer: timeout"}}
	busy := purchase.Status{Name: "third", State: provider.State{Kind: provider.StateBusy}}
	const key = "Since 03:02 UTC provider main refuses the key (ERROR_WRONG_USER_KEY): "
	for name, c := range map[string]struct {
		redis           Redis
		health          redisdb.Health
		providers       []purchase.Status
		history         *History
		targets         []Target
		gone            *gone
		replicas        []Replica
		simulated       bool
		embedded        bool
		alarms, notices []string // how each begins
	}{
		"nothing": {},
		"gone": {redis: Redis{Reason: "redis is gone"},
			alarms: []string{"Redis is gone: no token is handed out and nothing is bought,"}},
		"since": {redis: Redis{Reason: "redis is gone"}, health: redisdb.Health{Since: day.Add(-time.Minute)},
			alarms: []string{"Since 03:03 UTC redis is gone: no token"}},
		"another day": {redis: Redis{Reason: "redis is gone"}, health: redisdb.Health{Since: day.Add(-4 * time.Hour)},
			alarms: []string{"Since 2026-01-01 23:04 UTC redis is gone: "}},
		"full": {redis: Redis{Reason: "redis is full"}, health: redisdb.Health{Full: true},
			alarms: []string{"Redis is full: ready tokens are handed out, and nothing is bought; raise maxmemory"}},
		"settings": {health: redisdb.Health{Notices: []string{"maxmemory-policy is allkeys-lru"}}, notices: []string{"maxmemory-policy"}},

		"no provider": {providers: []purchase.Status{}, alarms: []string{"No provider is configured: nothing is bought; add a provider"}},
		"all down": {providers: []purchase.Status{refuses, silent}, alarms: []string{
			key + "nothing is bought; put the right key into pools.yaml",
			"Provider other is down (no proper answer: timeout): nothing is bought; poold tries it again when an order needs it, and at once after `poold probe other`",
		}},
		"one of two": {providers: []purchase.Status{refuses, busy}, notices: []string{key + "the other providers get its orders; put"}},
		"no callbacks": {providers: []purchase.Status{{Name: "fourth", State: busy.State, Silent: true}},
			notices: []string{"No callbacks arrived for the last tasks of provider fourth"}},

		"targets": {targets: []Target{
			{Name: "a", State: "budget", Reason: "the overall budget is used up"},
			{Name: "b", State: "budget", Reason: "the overall budget is used up"},
			{Name: "c", State: "refused", Reason: "the service refuses", Since: "2026-01-02T03:00:00.000Z"},
			{Name: "d", State: "starved", Reason: "busy"},
		}, alarms: []string{"No new tokens for a, b: the overall budget is used up; raise",
			"Since 03:00 UTC no new tokens for c: the service refuses; compare sitekey"}},

		"simulated": {simulated: true, embedded: true, notices: []string{"The provider is simulated"}},
		"embedded":  {embedded: true, notices: []string{"Redis is embedded"}},
		"a replica": {gone: &gone{"r1 (host:80)", day.Add(-time.Minute)}, replicas: []Replica{{StartedAt: stamp(day.Add(-time.Hour))}},
			notices: []string{"Since 03:03 UTC replica r1 (host:80) sends no beats: the other replicas do its work; start it again"}},
		"a replica that was replaced": {gone: &gone{"r1", day.Add(-time.Minute)}, replicas: []Replica{{StartedAt: stamp(day)}}},
		"a replica, long ago":         {gone: &gone{"r1", day.Add(-2 * time.Hour)}},
		"history": {history: &History{Reason: "refused", since: day},
			notices: []string{"Since 03:04 UTC the history cannot be written (refused)"}},
		"history's gap": {history: &History{OK: true, Dropped: 4},
			notices: []string{"The history is incomplete: rows that the store refused since the start of this replica: 4;"}},
	} {
		d := Document{Redis: c.redis, History: c.history, Replicas: c.replicas, Targets: c.targets, set: newSet()}
		if c.redis == (Redis{}) {
			d.Redis.OK = true
		}
		if c.embedded {
			d.set.Redis.URL = "embedded"
		}
		if c.simulated {
			d.set.Providers[0].Protocol = targets.ProtocolSimulated
		}
		if c.providers == nil {
			c.providers = []purchase.Status{busy}
		}
		d.announce(c.providers, c.health, c.gone, day)
		for _, lines := range [][2][]string{{d.Alarms, c.alarms}, {d.Notices, c.notices}} {
			if lines[0] == nil || !slices.EqualFunc(lines[0], lines[1], strings.HasPrefix) {
				t.Errorf("%s: %q, want %q", name, lines[0], lines[1])
			}
		}
	}
}
