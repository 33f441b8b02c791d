package redisdb

import (
	"strings"
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// faultsOf finds the dangerous settings in a reply to INFO. Absent settings are ignored.
func TestDangerousSettingsAreNamed(t *testing.T) {
	for info, want := range map[string][]string{ // a word of each sentence
		"# Server\r\nredis_version:7.0.15\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n" +
			"maxmemory:100\r\nused_memory:90\r\n": nil,
		"redis_version:10.0\r\naof_enabled:1\r\nmaxmemory:0\r\nused_memory:1000\r\n": nil,
		"# Clients\r\nconnected_clients:1\r\n":                                       nil,
		"redis_version:6.2.0\r\n":                                                    nil,
		"redis_version:5.9.9\r\n":                                                    {"5.9.9"},
		"redis_version:6.0.16\r\nrole:slave\r\naof_enabled:0\r\nmaxmemory_policy:volatile-ttl\r\n" +
			"maxmemory:100\r\nused_memory:91\r\n": {
			"6.0.16", "volatile-ttl", "append-only", "replica", "90 %"},
	} {
		got := faultsOf(settingsOf(info))
		for i := range max(len(got), len(want)) {
			if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
				t.Fatalf("%s: %q, want %q", info, got, want)
			}
		}
	}
}

// A dangerous setting is among the notices. The setting is logged once at the start and once after
// each outage. During the outage it stays among the notices.
func TestDangerousSettingsAreLoggedAndShown(t *testing.T) {
	t.Parallel()
	addr := redistest.Server(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	var log testkit.Log
	s := running(t, Options{Addresses: "redis://" + addr, Log: log.Logger()})
	for round := 1; round <= 2; round++ {
		testkit.Within(t, 20*time.Second, "a review",
			func() bool { return len(s.Health().Notices) == 2 && log.Count("WARN") == 2*round })
		if found := strings.Join(s.Health().Notices, " "); !strings.Contains(found, "maxmemory-policy allkeys-lru") ||
			!strings.Contains(found, "no append-only file") || log.Count("allkeys-lru") != round {
			t.Errorf("in round %d: %q\n%s", round, found, log.String())
		}
		redistest.Do(t, addr, "CONFIG", "SET", "min-replicas-to-write", "1")
		testkit.Within(t, 20*time.Second, "an outage", func() bool { return !s.Health().Up && len(s.Health().Notices) == 2 })
		redistest.Do(t, addr, "CONFIG", "SET", "min-replicas-to-write", "0")
	}
	redistest.Do(t, addr, "ACL", "SETUSER", "default", "-info")
	if found, _ := s.inspect(t.Context()); len(found) != 0 {
		t.Errorf("without the right to call INFO: %q", found)
	}
}

// Try finds nothing for a user with the documented rights, and else a denied probe and each dangerous setting.
func TestTryFindsFaultsAndDangerousSettings(t *testing.T) {
	t.Parallel()
	addr := redistest.Server(t, "--appendonly", "yes", "--dir", t.TempDir())
	do := func(words string) {
		t.Helper()
		var command []any
		for _, word := range strings.Fields(words) {
			command = append(command, word)
		}
		redistest.Do(t, addr, command...)
	}
	try := func(password string) (found string, err error) {
		return opened(t, Options{Addresses: "redis://poold:" + password + "@" + addr}).Try(t.Context())
	}
	do("ACL SETUSER " + strings.Join(redistest.Rights(t), " "))
	for _, c := range []struct{ fault, mended, want string }{
		{"PING", "PING", ""},
		{"ACL SETUSER poold resetkeys ~other:*", "ACL SETUSER poold resetkeys ~{captcha}:*",
			"the keys of EVALSHA, here with {captcha}:data"},
		{"ACL SETUSER poold -evalsha -eval", "ACL SETUSER poold +evalsha +eval",
			"a right that poold needs: the command EVAL"},
		{"CONFIG SET appendonly no", "CONFIG SET appendonly yes", "set appendonly yes"},
		{"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction", "set noeviction"},
	} {
		do(c.fault)
		found, err := try(redistest.Password)
		if isWell := strings.HasPrefix(found, addr+", version ") && strings.Contains(found, "."); isWell != (err == nil) ||
			isWell != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v", c.fault, found, err)
		}
		do(c.mended)
	}
	if _, err := try("canary"); err == nil || err.Error() != "redis refuses the user or its password ("+addr+")" {
		t.Errorf("a wrong password: %v", err)
	}
}
