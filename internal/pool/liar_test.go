package pool

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// One of three sentinels is alone in naming an address where nothing listens, a replica, or a master of
// another group. Takes succeed, and the other master gets no key.
func TestMostSentinelsAreBelieved(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	nodes := redistest.SentinelNodes(t)
	foreign := redistest.Server(t)
	liar := redistest.NewLiar(t, nodes[0].Addr)
	// Both clients use the liar, because the other sentinels hang.
	for _, node := range nodes[2:4] {
		must(t, node.Process.Signal(syscall.SIGSTOP))
	}
	log := new(testkit.Log)
	s := openLogged(t, Options{
		Addresses: urlsOf(nodes[2:4]) + ",redis://" + liar.Addr, SentinelMaster: redistest.MasterName, Prefix: "test",
	}, log.Logger())
	testkit.Within(t, 20*time.Second, "both clients use the liar", func() bool {
		_ = s.db.Slow.Ping(t.Context())
		return liar.Subscribers() == 2
	})
	for _, node := range nodes[2:4] {
		must(t, node.Process.Signal(syscall.SIGCONT))
	}
	s.DB.AwaitProbe(t.Context())
	testkit.Within(t, 20*time.Second, "healthy", func() bool { return s.DB.Health().Reason == "" })
	id := identity("a")
	stock(t, s, id, 30, 0, time.Minute)
	for _, lie := range []string{redistest.FreeAddress(t), nodes[1].Addr, foreign} {
		liar.Name(lie)
		for range 10 {
			testkit.Within(t, 20*time.Second, "Redis is up", func() bool {
				_, err := s.Take(t.Context(), Request{ID: id})
				cut := err != nil && strings.HasPrefix(redisdb.Reason(err), "redis closes the connection")
				if err != nil && !cut { // the kills can end all attempts of a probe
					t.Errorf("the liar names %s: %v", lie, err)
				}
				return !cut
			})
			redistest.Do(t, nodes[0].Addr, "CLIENT", "KILL", "TYPE", "normal") // each take asks a sentinel
		}
	}
	if n := look(t, s, id).Fresh; n != 0 {
		t.Errorf("%d tokens are left", n)
	}
	if n := redistest.Do(t, foreign, "DBSIZE"); n != "0" {
		t.Errorf("the master of another group has %s keys", n)
	}
	want := fmt.Sprintf("%s names %s; most of the sentinels name %s", liar.Addr, foreign, nodes[0].Addr)
	if found := s.DB.Try(t.Context()).Faults; !strings.Contains(strings.Join(found, "\n"), want) {
		t.Errorf("%q is not in %q", want, found)
	}
}

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
