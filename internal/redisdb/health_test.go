package redisdb

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// If a server worked at first and then closes its connections, the fault has no hint about TLS.
// Each change of the server's health is logged once. The first probe ends also if Redis does not answer: then Redis is
// known to be down.
func TestOutagesOfAServerThatServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		var closed atomic.Bool
		var log testkit.Log
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if closed.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: io.EOF}
			}
			return bubble.Dial(ctx, network, address)
		}
		closed.Store(true)
		db := running(t, Options{Addresses: redistest.BubbleAddress, Log: log.Logger(), Dial: dial})
		db.AwaitProbe(t.Context())
		testkit.Equal(t, "Redis is up after a failed probe", db.Health().Up, false)
		closed.Store(false)
		time.Sleep(5 * time.Second)
		for outage := 1; outage <= 2; outage++ {
			closed.Store(true)
			bubble.SetDown(true)
			time.Sleep(10 * time.Second)
			h := db.Health()
			if since := time.Since(h.Since); h.Up || !strings.HasPrefix(h.Reason, reasonClosed+" (") || since < 8*time.Second ||
				since > 10*time.Second {
				t.Errorf("outage %d: %+v", outage, h)
			}
			closed.Store(false)
			bubble.SetDown(false)
			time.Sleep(time.Second + probeEvery/5) // after many failed dials, go-redis dials once a second
			if h = db.Health(); !h.Up || h.Reason != "" || !h.Since.IsZero() {
				t.Errorf("after outage %d: %+v", outage, h)
			}
			if down, back := log.Count("redis is down"), log.Count("redis serves again"); down != outage+1 || back != outage+1 {
				t.Errorf("after outage %d: %d lines of outages, %d of their ends\n%s", outage, down, back, log.String())
			}
		}
	})
}

// Each loss of the data has its time at each replica, also at one that starts later.
func TestEachLossOfTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		var log testkit.Log
		options := Options{Addresses: redistest.BubbleAddress, Log: log.Logger(), Dial: bubble.Dial}
		replicas := []*DB{running(t, options), running(t, options)}
		for range 3 {
			time.Sleep(time.Minute)
			bubble.FlushAll()
			time.Sleep(3 * probeEvery)
			replicas = append(replicas, running(t, options))
			time.Sleep(probeEvery)
			for i, db := range replicas {
				if ago := time.Since(db.Health().Lost); ago > 5*probeEvery {
					t.Errorf("replica %d says that the data was lost %v ago", i, ago)
				}
			}
		}
		testkit.Equal(t, "errors in the log", log.Count("lost its data"), 2+3+4)
	})
}

// If refilling uses all connections of the slow client, Redis still counts as up, because takes have
// separate connections.
func TestBusySlowClientIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		var log testkit.Log
		db := running(t, Options{Addresses: redistest.BubbleAddress, Log: log.Logger(), Dial: bubble.Dial})
		slow := db.Slow.(*redis.Client)
		for range slow.Options().PoolSize {
			conn := slow.Conn()
			testkit.NoError(t, conn.Ping(t.Context()).Err())
			defer func() { _ = conn.Close() }()
		}
		testkit.ErrorIs(t, "a call without a free connection", db.Slow.Ping(t.Context()).Err(), ErrDown)
		time.Sleep(3 * (probeEvery + CallTimeout))
		if n := log.Count("redis is down"); n > 0 || !db.Health().Up {
			t.Errorf("%d outages\n%s", n, log.String())
		}
	})
}

// One of three masters hangs. Redis counts as down for the installation whose stock is there, and as up for the
// others.
func TestAPartOfAClusterHangs(t *testing.T) {
	t.Parallel()
	nodes := redistest.ClusterOf(t, "--cluster-require-full-coverage", "no")
	addresses := "redis://" + nodes[0].Addr + ",redis://" + nodes[1].Addr
	slots := opened(t, Options{Addresses: addresses}).Slow.(*redis.ClusterClient)
	there := map[bool]*DB{} // whether the stock is at the master that hangs
	for prefix := "p"; len(there) < 2; prefix += "p" {
		master, err := slots.MasterForKey(t.Context(), "{"+prefix+"}")
		testkit.NoError(t, err)
		if at := master.Options().Addr == nodes[0].Addr; there[at] == nil {
			there[at] = running(t, Options{Addresses: addresses, Prefix: prefix})
		}
	}
	healthy := func() bool { return there[true].Health().Reason == "" && there[false].Health().Reason == "" }
	testkit.Within(t, 20*time.Second, "all is well",
		func() bool { return healthy() && there[true].Health().Up && there[false].Health().Up })
	testkit.NoError(t, nodes[0].Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = nodes[0].Process.Signal(syscall.SIGCONT) })
	testkit.Within(t, 20*time.Second, "the fault is known", func() bool {
		return there[true].Health().Reason == reasonSilent+" ("+nodes[0].Addr+")" && there[false].Health().Up
	})
	if there[true].Health().Up || there[true].Away() == nil || !there[false].Health().Up || there[false].Away() != nil {
		t.Errorf("%+v, %+v", there[true].Health(), there[false].Health())
	}
	_ = nodes[0].Process.Signal(syscall.SIGCONT)
	testkit.Within(t, 20*time.Second, "all is well again",
		func() bool { return healthy() && there[true].Health().Up && there[true].Away() == nil })
}
