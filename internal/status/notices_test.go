package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A fault of Redis is an alarm; a provider that is down is one only if all are. A line says since when (in UTC, in
// every time zone of the daemon), why, what follows from it and what to do.
func TestAlarmsAndNotices(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("here", 3600)
	t.Cleanup(func() { time.Local = here })
	refuses := purchase.ProviderStatus{Name: "main", State: provider.Condition{
		Kind: provider.StateDown, Reason: "ERROR_WRONG_USER_KEY", Fault: "refuses the key",
		Remedy: "put the right key into pools.yaml", Since: day.Add(-2 * time.Minute),
	}}
	silent := purchase.ProviderStatus{Name: "other",
		State: provider.Condition{Kind: provider.StateDown, Reason: "no proper answer: timeout", Remedy: "see it"}}
	busy := purchase.ProviderStatus{Name: "third", State: provider.Condition{Kind: provider.StateBusy}}
	var text strings.Builder
	for _, c := range []struct {
		name      string
		redis     Redis
		health    redisdb.Health
		providers []purchase.ProviderStatus
		history   *History
		targets   []Target
		gone      *gone
		replicas  []Replica
		webhook   string
		simulated bool
		embedded  bool
	}{
		{name: "nothing"},
		{name: "gone", redis: Redis{Reason: "redis is gone"}},
		{name: "since", redis: Redis{Reason: "redis is gone"}, health: redisdb.Health{Since: day.Add(-time.Minute)}},
		{name: "another day", redis: Redis{Reason: "redis is gone"},
			health: redisdb.Health{Since: day.Add(-4 * time.Hour)}},
		{name: "full", redis: Redis{Reason: "redis is full"}, health: redisdb.Health{Full: true}},
		{name: "settings", health: redisdb.Health{Notices: []string{"maxmemory-policy is allkeys-lru"}}},
		{name: "no provider", providers: []purchase.ProviderStatus{}},
		{name: "all down", providers: []purchase.ProviderStatus{refuses, silent}},
		{name: "one of two", providers: []purchase.ProviderStatus{refuses, {State: provider.Condition{Kind: "ok"}}}},
		{name: "one of two, and the other is busy", providers: []purchase.ProviderStatus{refuses, busy}},
		{name: "no callbacks", providers: []purchase.ProviderStatus{{Name: "fourth", State: busy.State, Silent: true}}},
		{name: "targets", targets: []Target{
			{Name: "a", State: "budget", Reason: "the overall budget is used up"},
			{Name: "b", State: "budget", Reason: "the overall budget is used up"},
			{Name: "c", State: "refused", Reason: "the service refuses", Since: "2026-01-02T03:00:00.000Z"},
			{Name: "d", State: "starved", Reason: "busy"},
			{Name: "e", State: "starved", Reason: "the last orders failed", Marks: []string{markFailing}},
			{Name: "f", State: "starved", Reason: "all are down", Marks: []string{markFailing}, outage: true},
		}},
		{name: "simulated", simulated: true, embedded: true},
		{name: "embedded", embedded: true},
		{name: "a replica", gone: &gone{"r1 (host:80)", day.Add(-time.Minute)},
			replicas: []Replica{{StartedAt: stamp(day.Add(-time.Hour))}}},
		{name: "a replica that was replaced", gone: &gone{"r1", day.Add(-time.Minute)},
			replicas: []Replica{{StartedAt: stamp(day)}}},
		{name: "a replica, long ago", gone: &gone{"r1", day.Add(-2 * time.Hour)}},
		{name: "webhook", webhook: "Since 03:04 UTC the webhook at h takes no events"},
		{name: "history", history: &History{Reason: "refused", since: day}},
		{name: "history's gap", history: &History{OK: true, Dropped: 4}},
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
			c.providers = []purchase.ProviderStatus{busy}
		}
		d.announce(c.providers, c.health, c.gone, c.webhook, day)
		if d.Alarms == nil || d.Notices == nil {
			t.Errorf("%s: nil is null in the document", c.name)
		}
		fmt.Fprintf(&text, "%s\n", c.name)
		for _, line := range d.Alarms {
			fmt.Fprintf(&text, "\talarm: %s\n", line)
		}
		for _, line := range d.Notices {
			fmt.Fprintf(&text, "\tnotice: %s\n", line)
		}
	}
	testkit.Published(t, "testdata/notices.txt", text.String())
}
