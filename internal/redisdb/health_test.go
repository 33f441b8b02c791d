package redisdb

import (
	"context"
	"errors"
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
// Each change of the server's health is logged once.
func TestOutagesOfAServerThatServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		var closed atomic.Bool
		var log testkit.Log
		db := running(t, Options{Addresses: redistest.BubbleAddress, Log: log.Logger(), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if closed.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: io.EOF}
			}
			return bubble.Dial(ctx, network, address)
		}})
		time.Sleep(5 * time.Second)
		for outage := 1; outage <= 2; outage++ {
			closed.Store(true)
			bubble.SetDown(true)
			time.Sleep(10 * time.Second)
			if h := db.Health(); h.Up || !strings.HasPrefix(h.Reason, reasonClosed+" (") || time.Since(h.Since) < 8*time.Second || time.Since(h.Since) > 10*time.Second {
				t.Errorf("outage %d: %+v", outage, h)
			}
			closed.Store(false)
			bubble.SetDown(false)
			time.Sleep(time.Second + probeEvery/5) // after many failed dials, go-redis dials once a second
			if h := db.Health(); !h.Up || h.Reason != "" || !h.Since.IsZero() {
				t.Errorf("after outage %d: %+v", outage, h)
			}
			if down, back := log.Count("redis is down"), log.Count("redis serves again"); down != outage || back != outage {
				t.Errorf("after outage %d: %d lines of outages, %d of their ends", outage, down, back)
			}
		}
	})
}

// If refilling uses all connections of the slow client, Redis still counts as up, because takes have
// connections of their own.
func TestBusySlowClientIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		var log testkit.Log
		db := running(t, Options{Addresses: redistest.BubbleAddress, Log: log.Logger(), Dial: bubble.Dial})
		slow := db.Slow.(*redis.Client)
		for range slow.Options().PoolSize {
			conn := slow.Conn()
			if err := conn.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
		}
		if err := db.Slow.Ping(t.Context()).Err(); !errors.Is(err, ErrDown) {
			t.Fatalf("a connection of the slow client is free: %v", err)
		}
		time.Sleep(3 * (probeEvery + CallTimeout))
		if n := log.Count("redis is down"); n > 0 || !db.Up() {
			t.Errorf("%d outages\n%s", n, log.String())
		}
	})
}

// The first probe ends also if Redis does not answer. Then it is known to be down.
func TestAwaitProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		bubble.SetDown(true)
		db, err := Open(Options{Addresses: redistest.BubbleAddress, Dial: bubble.Dial, Prefix: "p", Log: new(testkit.Log).Logger()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- db.Run(ctx) }()
		db.AwaitProbe(ctx)
		if db.Up() {
			t.Error("Redis counts as up after a failed probe")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
}

// The condition of a cluster says which masters cannot be used. A reply of Redis is preferred to a fault
// of the network, and any fault to a full memory.
func TestConditionsOfACluster(t *testing.T) {
	memory, silent, replica := Down(redisAnswer("OOM command not allowed")), Down(io.ErrNoProgress), Down(redisAnswer("READONLY You can't write"))
	for _, c := range []struct {
		faults     map[string]error
		some, full bool // a part works
		away       string
		reason     string
	}{
		{nil, true, false, "", ""},
		{map[string]error{"a": memory}, false, true, "", "redis is out of memory (a)"},
		{map[string]error{"a": silent}, true, false, "a", "1 of the 3 masters of the redis cluster cannot be used (a): redis does not answer"},
		{map[string]error{"a": silent, "b": silent, "c": replica}, false, false, "", "redis is read-only: this is a replica"},
		{map[string]error{"a": silent, "b": replica, "c": memory}, true, false, "a b",
			"2 of the 3 masters of the redis cluster cannot be used (a, b): redis is read-only: this is a replica"},
	} {
		now := summarise(c.faults, 3)
		if away := strings.Join(now.away, " "); (now.err == nil || now.partial) != c.some || now.full != c.full || away != c.away {
			t.Errorf("%v: %+v", c.faults, now)
		}
		if now.err != nil && Reason(now.err) != c.reason || (now.err == nil) != (c.reason == "") {
			t.Errorf("%v: %v", c.faults, now.err)
		}
	}
}

// One of three masters hangs. Redis counts as down for the installation whose stock is there, and as up for the
// others, which are told of the fault too.
func TestAPartOfAClusterHangs(t *testing.T) {
	t.Parallel()
	nodes := redistest.ClusterOf(t, 0, "--cluster-require-full-coverage", "no")
	addresses := ""
	for _, node := range nodes {
		addresses += ",redis://" + node.Addr
	}
	there := map[bool]*DB{} // whether the stock is at the master that hangs
	for i := 0; len(there) < 2; i++ {
		prefix := strings.Repeat("p", i+1)
		db, err := Open(Options{Addresses: addresses[1:], Prefix: prefix, Log: new(testkit.Log).Logger()})
		if err != nil {
			t.Fatal(err)
		}
		master, err := db.Slow.(*redis.ClusterClient).MasterForKey(t.Context(), "{"+prefix+"}")
		if err != nil {
			t.Fatal(err)
		}
		at := master.Options().Addr == nodes[0].Addr
		_ = db.Close()
		if there[at] == nil {
			there[at] = running(t, Options{Addresses: addresses[1:], Prefix: prefix, Log: new(testkit.Log).Logger()})
		}
	}
	healthy := func() bool { return there[true].Health().Reason == "" && there[false].Health().Reason == "" }
	testkit.Within(t, 20*time.Second, "all is well", func() bool { return healthy() && there[true].Up() && there[false].Up() })
	if err := nodes[0].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes[0].Process.Signal(syscall.SIGCONT) })
	missed := "1 of the 3 masters of the redis cluster cannot be used (" + nodes[0].Addr + "): "
	testkit.Within(t, 20*time.Second, "the fault is known", func() bool {
		return strings.Contains(there[true].Health().Reason, missed) && strings.Contains(there[false].Health().Reason, missed)
	})
	if there[true].Up() || there[true].Away() == nil || !there[false].Up() || there[false].Away() != nil {
		t.Errorf("%+v, %+v", there[true].Health(), there[false].Health())
	}
	_ = nodes[0].Process.Signal(syscall.SIGCONT)
	testkit.Within(t, 20*time.Second, "all is well again", func() bool { return healthy() && there[true].Up() && there[true].Away() == nil })
}
