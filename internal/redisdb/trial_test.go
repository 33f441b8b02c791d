package redisdb

import (
	"slices"
	"strings"
	"testing"

	"poold/internal/redisdb/redistest"
)

// try checks a Redis like `poold check --live`.
func try(t *testing.T, addresses string) Trial {
	t.Helper()
	return opened(t, Options{Addresses: addresses, Prefix: "captcha"}).Try(t.Context())
}

// Try finds each missing right and each dangerous setting, and leaves no key behind.
func TestTryFindsMissingRightsAndDangerousSettings(t *testing.T) {
	t.Parallel()
	addr := redistest.Server(t, "--appendonly", "yes", "--dir", t.TempDir())
	ask := func(words string) string {
		t.Helper()
		var args []any
		for _, word := range strings.Fields(words) {
			args = append(args, word)
		}
		return redistest.Do(t, addr, args...)
	}
	var granted []string // rights in the docs
	words := "ACL SETUSER "
	for _, word := range redistest.Rights(t) {
		words += " " + strings.Replace(strings.Replace(word, "~test-*", "~captcha:*", 1), "&test-*", "&captcha:*", 1)
		if command, is := strings.CutPrefix(word, "+"); is {
			granted = append(granted, command)
		}
	}
	ask(words)
	login := "redis://poold:" + redistest.Password + "@" + addr
	found := try(t, login)
	if found.Where != addr || !strings.Contains(found.Version, ".") || len(found.Faults) > 0 {
		t.Errorf("all is well: %+v", found)
	}
	if left := ask("KEYS captcha:*"); left != "[]" {
		t.Errorf("the trial left %s", left)
	}
	var tried []string
	for _, trial := range trials {
		tried = append(tried, strings.Fields(trial)[0])
	}
	for _, command := range granted {
		if slices.Contains([]string{"hello", "publish", "subscribe", "cluster|slots", "command"}, command) != !slices.Contains(tried, command) {
			t.Errorf("README grants %s, and it is tried: %v", command, slices.Contains(tried, command))
		}
	}
	if len(tried)+5 != len(granted) {
		t.Errorf("README grants %d commands, %d are tried", len(granted), len(tried))
	}

	for _, c := range []struct{ fault, mended, want string }{
		{"ACL SETUSER poold -getex -zadd -info", "ACL SETUSER poold +getex +zadd +info", "the commands getex, info, zadd. docs/configuration.md, Redis"},
		{"ACL SETUSER poold resetkeys ~other:*", "ACL SETUSER poold resetkeys ~captcha:*", "denies its user, on keys that begin with captcha:, the commands del, eval"},
		{"ACL SETUSER poold -evalsha", "ACL SETUSER poold +evalsha", "the commands evalsha."},
		{"ACL SETUSER poold resetchannels", "ACL SETUSER poold &captcha:*", "denies its user SUBSCRIBE or PUBLISH"},
		{"CONFIG SET appendonly no", "CONFIG SET appendonly yes", "set appendonly yes"},
		{"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction", "set noeviction"},
	} {
		ask(c.fault)
		if found := try(t, login); !strings.Contains(strings.Join(found.Faults, "\n"), c.want) {
			t.Errorf("%s: %+v", c.fault, found)
		}
		ask(c.mended)
	}
	if found := try(t, "redis://poold:canary@"+addr); len(found.Faults) != 1 || found.Faults[0] != "redis refuses the user or its password ("+addr+")" {
		t.Errorf("a wrong password: %+v", found)
	}
}
