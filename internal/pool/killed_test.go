package pool

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// A master without a replica is killed, and starts again. The other masters serve all the time. Callers of
// the killed master fail immediately without a wait, and at the end of their wait otherwise. If the master
// is back in time, they get their tokens. No token is lost, because the masters write each command to their
// disks before they reply.
func TestAKilledMasterReturns(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	nodes := redistest.ClusterOf(t, 0, "--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, Options{Addresses: urlsOf(nodes), Prefix: "test"})
	stocked, empty := identityAt(t, s, nodes[0].Addr, "stocked"), identityAt(t, s, nodes[0].Addr, "empty")
	living := identityAt(t, s, nodes[1].Addr, "living")
	stock(t, s, stocked, 4, 0, time.Minute)
	stock(t, s, living, 50, 0, time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var served atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			token, err := s.Take(t.Context(), Request{ID: living})
			if err == nil {
				err = s.Return(token)
			}
			if err != nil {
				t.Errorf("a take from a living master: %v", err)
			}
			served.Add(1)
		}
	}()
	waits := make(chan error, 2)
	wait := func(r Request) { _, err := s.Take(t.Context(), r); waits <- err }
	go wait(Request{ID: empty, Wait: time.Minute, MaxWaiting: 9})
	testkit.Within(t, 20*time.Second, "a pending caller", func() bool { return look(t, s, empty).Waiting == 1 })

	must(t, nodes[0].Process.Signal(syscall.SIGKILL))
	testkit.Within(t, 20*time.Second, "the fault is known", func() bool { return s.DB.Health().Reason != "" })
	for _, r := range []Request{{}, {Wait: 300 * time.Millisecond, MaxWaiting: 9}} {
		r.ID = stocked
		began := time.Now()
		_, err := s.Take(t.Context(), r)
		if took := time.Since(began); !errors.Is(err, redisdb.ErrDown) || took < r.Wait-passingEvery || took > r.Wait+redisdb.CallTimeout {
			t.Errorf("a take with a wait of %v: after %v %v", r.Wait, took, err)
		}
	}
	go wait(Request{ID: stocked, Wait: time.Minute, MaxWaiting: 9})
	before := served.Load()
	testkit.Within(t, 20*time.Second, "takes from a living master", func() bool { return served.Load() > before+100 })
	nodes[0].Restart(t)
	must(t, <-waits)
	testkit.Within(t, 20*time.Second, "healthy", func() bool { return s.DB.Health().Reason == "" })
	stock(t, s, empty, 1, 0, time.Minute)
	must(t, <-waits)
	stop()
	<-ended
	testkit.Within(t, 20*time.Second, "all tokens are back", func() bool { return look(t, s, stocked).Fresh == 3 })
	if n := look(t, s, empty).Fresh; n != 0 {
		t.Errorf("%d tokens are left", n)
	}
}
