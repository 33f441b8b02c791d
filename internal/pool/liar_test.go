package pool

import (
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// The only sentinel names an address where nothing listens, or a replica. The status and one line of the
// log have the reason. When the sentinel names the master again, all tokens are there.
func TestALyingSentinel(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	nodes := redistest.SentinelNodes(t)[:2]
	liar := redistest.NewLiar(t, nodes[0].Addr)
	log := new(testkit.Log)
	s := openLogged(t, Options{Addresses: "redis://" + liar.Addr, SentinelMaster: redistest.MasterName, Prefix: "test"},
		log.Logger())
	id := identity("a")
	stock(t, s, id, 10, 0, time.Minute)
	for lie, reason := range map[string]string{
		redistest.FreeAddress(t): "redis refuses the connection: nothing listens there (sentinels " + liar.Addr + ")",
		nodes[1].Addr:            "redis is read-only: this is a replica (sentinels " + liar.Addr + ")",
	} {
		liar.Name(lie)
		testkit.Within(t, 20*time.Second, reason, func() bool { return s.DB.Health().Reason == reason })
		if _, err := s.Take(t.Context(), Request{ID: id}); err == nil {
			t.Errorf("a take although the sentinel names %s", lie)
		}
		liar.Name(nodes[0].Addr)
		testkit.Within(t, 20*time.Second, "recovery", func() bool { return s.DB.Health().Reason == "" })
		if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
			t.Error(err)
		}
		if n := log.Count(reason); n != 1 {
			t.Errorf("%d lines have the reason %q:\n%s", n, reason, log.String())
		}
	}
	if n := look(t, s, id).Fresh; n != 8 {
		t.Errorf("%d tokens are left, want 8", n)
	}
}
