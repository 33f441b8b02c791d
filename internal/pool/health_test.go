package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// The health check finds and names each fault that prevents hand-outs or landings, even if no call
// is made. When the fault has ended, the health check stops reporting it.
func TestHealthNamesTheFault(t *testing.T) {
	addr := redistest.Server(t)
	admin := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = admin.Close() })
	do := func(words string) {
		t.Helper()
		var args []any
		for _, word := range strings.Fields(words) {
			args = append(args, word)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", words, err)
		}
	}
	s, id := open(t, Options{Addresses: "redis://" + addr}), identity("a")
	stock(t, s, id, 20, 0, time.Minute)
	const denied = "redis denies its user a command, a key or a channel that poold needs"
	for _, c := range []struct {
		fault, mended, reason string
		takes                 bool
	}{
		{"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "redis is out of memory", true},
		{"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "redis takes no writes: too few of its replicas follow it (min-replicas-to-write)", false},
		{"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "redis is read-only: this is a replica", false},
		{"ACL SETUSER default resetkeys ~nothing", "ACL SETUSER default ~*", denied, false},
		{"ACL SETUSER default -evalsha", "ACL SETUSER default +evalsha", denied, false},
	} {
		do(c.fault)
		began := time.Now()
		testkit.Within(t, 20*time.Second, c.fault, func() bool { return !s.DB.Health().Up })
		if h := s.DB.Health(); h.Reason != c.reason+" ("+addr+")" {
			t.Errorf("%s: %+v", c.fault, h)
		}
		t.Logf("%s: known after %v", c.fault, time.Since(began))
		_, err := s.Take(t.Context(), Request{ID: id})
		if c.takes {
			if err != nil {
				t.Errorf("%s: what is there was not handed out: %v", c.fault, err)
			}
		} else if !errors.Is(err, redisdb.ErrDown) || redisdb.Reason(err) != c.reason && redisdb.Reason(err) != c.reason+" ("+addr+")" {
			t.Errorf("%s: took %v", c.fault, err)
		}
		do(c.mended)
		testkit.Within(t, 20*time.Second, c.mended, func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
		if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
			t.Errorf("after %s: %v", c.mended, err)
		}
	}
	do("CONFIG SET requirepass secret")
	do("CLIENT KILL TYPE normal SKIPME yes")
	testkit.Within(t, 20*time.Second, "a password is wanted", func() bool { return s.DB.Health().Reason == "redis requires a password ("+addr+")" })
}

// identityAt returns an identity whose slot this master of a cluster has. Different names give
// different identities.
func identityAt(t testing.TB, s *replica, address, name string) captcha.ID {
	t.Helper()
	for i := range 100 {
		id := identity(fmt.Sprint(name, i))
		master, err := s.db.Slow.(*redis.ClusterClient).MasterForKey(t.Context(), "{"+string(id)+"}")
		must(t, err)
		if master.Options().Addr == address {
			return id
		}
	}
	t.Fatalf("none of 100 identities is at %s", address)
	return ""
}

// A master without a replica hangs. Tokens at the other masters are handed out and land, and pending
// callers are woken. Calls for identities of the hanging master fail immediately.
func TestAPartOfAClusterServes(t *testing.T) {
	t.Parallel()
	nodes := redistest.ClusterOf(t, 0)
	s := open(t, Options{Addresses: urlsOf(nodes)})
	var queries []Query
	for _, node := range nodes {
		queries = append(queries, Query{ID: identityAt(t, s, node.Addr, "a")})
		stock(t, s, queries[len(queries)-1].ID, 2, 0, time.Minute)
	}
	testkit.Within(t, 20*time.Second, "all is well", func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
	testkit.Within(t, 20*time.Second, "reviewed", func() bool { return len(s.DB.Health().Notices) == 1 })
	for _, node := range nodes {
		if notice := s.DB.Health().Notices[0]; !strings.Contains(notice, node.Addr) || !strings.Contains(notice, "append-only") {
			t.Errorf("%s is not in: %s", node.Addr, notice)
		}
	}
	if found := s.DB.Try(t.Context()); found.Version == "" || len(found.Faults) != 1 || !strings.Contains(found.Faults[0], nodes[2].Addr) {
		t.Errorf("a trial of a cluster: %+v", found)
	}
	if _, err := s.Take(t.Context(), Request{ID: queries[1].ID}); err != nil { // loads the secret
		t.Fatal(err)
	}
	must(t, nodes[0].Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = nodes[0].Process.Signal(syscall.SIGCONT) })
	// By default, a cluster with a missing slot refuses all commands.
	testkit.Within(t, 20*time.Second, "the cluster is down", func() bool { return strings.Contains(s.DB.Health().Reason, "the redis cluster is down") })
	if s.DB.Health().Up {
		t.Errorf("a cluster that is down: %+v", s.DB.Health())
	}
	for _, node := range nodes[1:] {
		admin := redis.NewClient(&redis.Options{Addr: node.Addr, Protocol: 2, DisableIdentity: true})
		if err := admin.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Error(err)
		}
		_ = admin.Close()
	}
	missed := "1 of the 3 masters of the redis cluster cannot be used (" + nodes[0].Addr + "): "
	testkit.Within(t, 20*time.Second, "the node is missed", func() bool { return strings.Contains(s.DB.Health().Reason, missed) })
	if !s.DB.Health().Up {
		t.Fatalf("two of three masters serve: %+v", s.DB.Health())
	}
	soon := func() context.Context {
		limited, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return limited
	}
	_, err := s.Take(soon(), Request{ID: queries[0].ID})
	if !errors.Is(err, redisdb.ErrDown) || !strings.Contains(redisdb.Reason(err), "1 of the 3 masters") {
		t.Errorf("a take from the node that hangs: %v", err)
	}
	if _, err := s.Take(soon(), Request{ID: queries[1].ID}); err != nil {
		t.Errorf("a take from a node that serves: %v", err)
	}
	stock(t, s, queries[2].ID, 1, 0, time.Minute)
	stocks, err := s.LookAll(soon(), queries)
	if err != nil || !errors.Is(stocks[0].Err, redisdb.ErrDown) || stocks[1].Err != nil || stocks[1].Fresh != 0 || stocks[2].Err != nil || stocks[2].Fresh != 3 {
		t.Errorf("the survey: %+v, %v", stocks, err)
	}
	must(t, nodes[0].Process.Signal(syscall.SIGCONT))
	testkit.Within(t, 20*time.Second, "all is well again", func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
	if _, err := s.Take(t.Context(), Request{ID: queries[0].ID}); err != nil {
		t.Errorf("a take after all came back: %v", err)
	}
}

// One master of a cluster is out of memory. It hands out its ready tokens, and orders in flight land
// there, but no order is placed there until it has memory again.
func TestAMasterWithoutMemory(t *testing.T) {
	t.Parallel()
	nodes := redistest.ClusterOf(t, 0, "--maxmemory-policy", "noeviction")
	s := open(t, Options{Addresses: urlsOf(nodes)})
	full, healthy := identityAt(t, s, nodes[0].Addr, "a"), identityAt(t, s, nodes[1].Addr, "a")
	stock(t, s, full, 5, 0, time.Minute)
	paid := Ref{full, "paid"}
	place(t, s, full, paid.Order)
	expect(t, true)(s.MarkSubmitting(t.Context(), paid))
	redistest.Do(t, nodes[0].Addr, "CONFIG", "SET", "maxmemory", "1")
	testkit.Within(t, 20*time.Second, "the full memory is known", func() bool { return s.DB.Health().Full })
	if h := s.DB.Health(); h.Reason != "redis is out of memory ("+nodes[0].Addr+")" {
		t.Errorf("%+v", h)
	}
	take(t, s, Request{ID: full}, 1)
	take(t, s, Request{ID: full, Wait: time.Second, MaxWaiting: 5}, 1)
	if got, err := s.Place(t.Context(), Order{Ref: Ref{full, "new"}, Depth: 100, TTL: time.Minute}); !errors.Is(err, redisdb.ErrDown) || redisdb.Reason(err) != "redis is out of memory" {
		t.Errorf("a new order: %+v, %v", got, err)
	}
	land(t, s, full, paid.Order, 0, time.Minute)
	stock(t, s, healthy, 1, 0, time.Minute)
	take(t, s, Request{ID: healthy}, 1)
	redistest.Do(t, nodes[0].Addr, "CONFIG", "SET", "maxmemory", "0")
	testkit.Within(t, 20*time.Second, "all is well again", func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
	place(t, s, full, "later")
	if got := look(t, s, full); got.Fresh != 4 || got.Orders != 1 {
		t.Errorf("afterwards: %+v", got)
	}
}
