package redisdb

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// faultsOf finds the dangerous settings in a reply to INFO. Absent settings are ignored.
func TestDangerousSettingsAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		info string
		want []string // one word of each expected sentence
	}{
		"good":        {"# Server\r\nredis_version:7.0.15\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\nmaxmemory:100\r\nused_memory:90\r\n", nil},
		"no limit":    {"redis_version:10.0\r\naof_enabled:1\r\nmaxmemory:0\r\nused_memory:1000\r\n", nil},
		"says little": {"# Clients\r\nconnected_clients:1\r\n", nil},
		"all": {
			"redis_version:6.0.16\r\nrole:slave\r\naof_enabled:0\r\nmaxmemory_policy:volatile-ttl\r\nmaxmemory:100\r\nused_memory:91\r\n",
			[]string{"6.0.16", "volatile-ttl", "append-only", "replica", "90 %"},
		},
		"old":  {"redis_version:5.9.9\r\n", []string{"5.9.9"}},
		"6.2.": {"redis_version:6.2.0\r\n", nil},
	} {
		got := faultsOf(c.info)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, word := range c.want {
			if !strings.Contains(got[i], word) {
				t.Errorf("%s: %q, want %q in it", name, got[i], word)
			}
		}
	}
}

// A dangerous setting is among the notices. The setting is logged once at the start and once after
// each outage.
func TestDangerousSettingsAreLoggedAndShown(t *testing.T) {
	t.Parallel()
	addr := redistest.Server(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	var log testkit.Log
	s := running(t, Options{Addresses: "redis://" + addr, Log: log.Logger()})
	listening, stop := context.WithCancel(t.Context())
	var listener sync.WaitGroup
	listener.Go(func() {
		s.Listen(listening, func(message string) { t.Errorf("heard %q", message) }) // a review publishes empty messages
	})
	t.Cleanup(func() { stop(); listener.Wait() })
	holds := func(word string) func() bool {
		return func() bool {
			return slices.ContainsFunc(s.Health().Notices, func(n string) bool { return strings.Contains(n, word) })
		}
	}
	testkit.Within(t, 20*time.Second, "eviction is seen", holds("maxmemory-policy allkeys-lru"))
	if !holds("no append-only file")() || holds("90 %")() || log.Count("allkeys-lru") != 1 {
		t.Errorf("at the start: %q, %d warnings", s.Health().Notices, log.Count("allkeys-lru"))
	}
	// SETRANGE makes a large value from a small request. The buffer of a large request would also
	// count as used memory, until Redis notices that the connection is closed.
	redistest.Do(t, addr, "SETRANGE", "filler", strconv.Itoa(64<<20), "x")
	used, _, _ := strings.Cut(strings.SplitN(redistest.Do(t, addr, "INFO", "memory"), "used_memory:", 2)[1], "\r")
	bytes, err := strconv.Atoi(used)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Do(t, addr, "CONFIG", "SET", "maxmemory", strconv.Itoa(bytes*107/100))
	redistest.Do(t, addr, "CONFIG", "SET", "min-replicas-to-write", "1")
	testkit.Within(t, 20*time.Second, "an outage", func() bool { return !s.Health().Up })
	redistest.Do(t, addr, "CONFIG", "SET", "min-replicas-to-write", "0")
	testkit.Within(t, 20*time.Second, "a full memory is seen", holds("90 %"))
	if log.Count("allkeys-lru") != 2 || log.Count("level=WARN") != 5 {
		t.Errorf("after an outage: %s", log.String())
	}
	// Without the right to call INFO there is no notice.
	redistest.Do(t, addr, "ACL", "SETUSER", "default", "-info")
	if found := s.monitor.faults(t.Context()); len(found) != 0 {
		t.Errorf("without the right to INFO: %q", found)
	}
}
