package pool

import (
	"slices"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// A replica counts as alive until its last heartbeat expires, or until Leave.
func testHeartbeatListsLiveReplicas(t *testing.T, o Options) {
	o.Prefix = "test-" + t.Name()
	a, b := open(t, o), open(t, o)
	live := func(r *replica, lasts time.Duration, want ...*replica) {
		t.Helper()
		self, live, err := r.Heartbeat(t.Context(), lasts)
		var names []string
		for _, w := range want {
			names = append(names, w.replica)
		}
		slices.Sort(names)
		if err != nil || self != r.replica || !slices.Equal(live, names) {
			t.Errorf("%s hears of %v, %v; want %v", self, live, err, names)
		}
	}
	live(a, time.Minute, a)
	live(b, time.Minute, a, b)
	live(a, time.Minute, a, b)
	must(t, b.Leave(t.Context()))
	live(a, time.Minute, a)
	live(b, 100*time.Millisecond, a, b)
	testkit.Within(t, 20*time.Second, "forgotten", func() bool {
		_, live, err := a.Heartbeat(t.Context(), time.Minute)
		return err == nil && len(live) == 1
	})
}

// Replicas can read each other's shared statuses, in the sequence of the requested identities.
func testReplicasShareStatuses(t *testing.T, o Options) {
	o.Prefix = "test-" + t.Name()
	a, b := open(t, o), open(t, o)
	one, two, none := identity("one"), identity("two"), identity("none")
	for id, text := range map[captcha.ID]string{one: "starved", two: "ok"} {
		must(t, a.Share(t.Context(), id, []byte(text)))
	}
	got, err := b.Shared(t.Context(), []captcha.ID{two, none, one})
	if err != nil || len(got) != 3 || string(got[0]) != "ok" || got[1] != nil || string(got[2]) != "starved" {
		t.Errorf("shared %q, %v", got, err)
	}
	if got, err := b.Shared(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("shared of nothing: %v, %v", got, err)
	}
	if got, err := b.Shared(t.Context(), []captcha.ID{none}); err != nil || got[0] != nil {
		t.Errorf("shared of what nobody has spoken of: %v, %v", got, err)
	}
}
