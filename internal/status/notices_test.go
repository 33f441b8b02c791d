package status

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
)

// An unusable store is an alarm. An unusable part of the store is also an alarm. An alarm begins
// with its time in UTC, if the time is known.
func TestAlarmsOfTheStore(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("here", 3600)
	t.Cleanup(func() { time.Local = here })
	for _, c := range []struct {
		redis  Redis
		health redisdb.Health
		want   string
	}{
		{Redis{OK: true}, redisdb.Health{}, ""},
		{Redis{Reason: "redis is gone"}, redisdb.Health{}, "Redis is gone: no token is handed out and nothing is bought,"},
		{Redis{Reason: "redis is gone"}, redisdb.Health{Since: day.Add(-time.Minute)}, "Since 03:03 UTC redis is gone: no token is handed out"},
		{Redis{Reason: "redis is gone"}, redisdb.Health{Since: day.Add(-4 * time.Hour)}, "Since 2026-01-01 23:04 UTC redis is gone: "},
		{Redis{Reason: "redis is full"}, redisdb.Health{Full: true}, "Redis is full: ready tokens are handed out, and nothing is bought; raise maxmemory"},
		{Redis{OK: true, Reason: "a node is away"}, redisdb.Health{Since: day}, "Since 03:04 UTC a node is away: the targets of this part hand out and buy nothing"},
	} {
		got := strings.Join(c.redis.alarms(c.health, day), "|")
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") || strings.ContainsAny(got, "|\n") {
			t.Errorf("%+v, %+v: %q", c.redis, c.health, got)
		}
	}
}

// Each provider that is down has one line with the time, the cause, the consequence and the action.
// The lines are alarms only if all providers are down.
func TestProvidersThatAreDown(t *testing.T) {
	down := purchase.Status{Name: "main", State: provider.State{
		Kind: provider.StateDown, Reason: "ERROR_WRONG_USER_KEY", Fault: "refuses the key", Remedy: "put the right key into pools.yaml", Since: day.Add(-2 * time.Minute),
	}}
	silent := purchase.Status{Name: "other", State: provider.State{Kind: provider.StateDown, Reason: "no proper answer: timeout"}}
	const first = "Since 03:02 UTC provider main refuses the key (ERROR_WRONG_USER_KEY): "
	for name, c := range map[string]struct {
		providers       []purchase.Status
		alarms, notices []string
	}{
		"none": {nil, []string{"No provider is configured: nothing is bought; add a provider to the configuration file"}, nil},
		"one":  {[]purchase.Status{down}, []string{first + "nothing is bought; put the right key into pools.yaml"}, nil},
		"all": {[]purchase.Status{down, silent}, []string{
			first + "nothing is bought; put the right key into pools.yaml",
			"Provider other is down (no proper answer: timeout): nothing is bought; poold tries again by itself, and at once after `poold probe other`",
		}, nil},
		"one of two": {[]purchase.Status{down, {Name: "third", State: provider.State{Kind: provider.StateBusy}}}, nil,
			[]string{first + "the other providers get its orders; put the right key into pools.yaml"}},
	} {
		if alarms, notices := outages(c.providers, day); !slices.Equal(alarms, c.alarms) || !slices.Equal(notices, c.notices) {
			t.Errorf("%s: alarms %q, notices %q", name, alarms, notices)
		}
	}
}

// A reason that several targets have appears in only one notice, even if the details of the reason
// differ between the targets.
func TestSharedReasons(t *testing.T) {
	busy := []purchase.Status{
		{Name: "main", State: provider.State{Kind: provider.StateOK}, InFlight: 20, Concurrency: 20},
		{Name: "second", State: provider.State{Kind: provider.StateDown, Reason: "no money"}, Concurrency: 5},
	}
	budget := func(which, room string) refill.Status {
		return refill.Status{State: refill.Budget, Reason: which + "; there is room again at " + room}
	}
	for name, c := range map[string]struct {
		refill []refill.Status // of the targets t00000, t00001, …
		brake  pool.Brake      // of all targets
		read   error           // of all targets
		want   []string
	}{
		"threads": {refill: []refill.Status{
			{State: refill.Starved, Reason: "20 of 20 threads of main in use; raise concurrency"}, {State: refill.OK},
			{State: refill.Starved, Reason: "5 of 5 threads of second in use; raise concurrency"},
		}, want: []string{"2 targets wait for a thread: provider main has 20 of 20 in use, provider second is down; raise concurrency or add a provider"}},
		"one target": {refill: []refill.Status{{State: refill.Starved, Reason: "20 of 20 threads of main in use; raise concurrency"}, {State: refill.OK}}},
		"overall budget": {refill: []refill.Status{budget(refill.OverallBudget, "10:00"), budget(refill.OverallBudget, "11:00")},
			want: []string{"2 targets buy nothing: the overall budget of 500 solves a day is used up; raise budget.per_day, or wait until it has room"}},
		"own budgets": {refill: []refill.Status{budget(refill.OwnBudget, "10:00"), budget(refill.OwnBudget, "11:00"), budget(refill.OverallBudget, "10:00")},
			want: []string{"2 targets buy nothing: their own budgets are used up; raise their budgets, or wait until they have room"}},
		"refused": {refill: []refill.Status{{}, {}}, brake: pool.Brake{Kind: string(pool.Hopeless), Reason: "ERROR_GOOGLEKEY", Since: day, Next: day},
			want: []string{"2 targets are refused by the provider (ERROR_GOOGLEKEY): each places one order at growing intervals; compare their sitekeys and pages with the sites"}},
		"failing": {refill: []refill.Status{{}, {}}, brake: pool.Brake{Kind: string(pool.Failed), Reason: "ERROR_CAPTCHA_UNSOLVABLE", Since: day, Next: day},
			want: []string{"2 targets get no tokens: their last orders all failed, so each places one order in 5 s; look at the reasons of their rows"}},
		"unread": {refill: []refill.Status{{State: refill.OK}, {State: refill.OK}, {State: refill.OK}}, read: redisdb.ErrDown}, // an alarm says it
		"most first": {refill: []refill.Status{
			{State: refill.Starved, Reason: "b"}, {State: refill.Starved, Reason: "b"}, {State: refill.Starved, Reason: "a"}, {State: refill.Starved, Reason: "a"}, {State: refill.Starved, Reason: "a"},
		}, want: []string{"3 targets are starved: a", "2 targets are starved: b"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			set := setOf(len(c.refill))
			set.Budget.PerDay = 500
			s, stock := sources(set)
			for i, now := range c.refill {
				now.Want = 1
				stock.stocks[set.Targets[i].ID] = decided(pool.Stock{Counts: pool.Counts{Brake: c.brake}}, now)
			}
			if c.read != nil {
				stock.before = func(context.Context) error { return c.read }
			}
			s.Purchases = &fixedBuyer{providers: busy}
			d := NewCollector(s).Snapshot(t.Context()).Document
			got := slices.DeleteFunc(slices.Clone(d.Notices), func(n string) bool { return !strings.Contains(n, " targets ") })
			if !slices.Equal(got, c.want) || d.Notices == nil {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			// A key for one target does not see the number of the other targets.
			part := d.Part(func(target string) bool { return target == "t00000" })
			if slices.ContainsFunc(part.Notices, func(n string) bool { return strings.Contains(n, " targets ") }) || len(part.Notices) != len(d.Notices)-len(got) {
				t.Errorf("%s: a key for one target sees %q", name, part.Notices)
			}
		})
	}
}
