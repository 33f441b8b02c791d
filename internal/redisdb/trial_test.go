package redisdb

import (
	"strings"
	"testing"

	"poold/internal/redisdb/redistest"
)

// try checks a Redis like `poold check --live`.
func try(t *testing.T, addresses string) Trial {
	t.Helper()
	return opened(t, Options{Addresses: addresses, Prefix: "captcha"}).Try(t.Context())
}

// Try finds a denied probe and each dangerous setting.
func TestTryFindsFaultsAndDangerousSettings(t *testing.T) {
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
	words := "ACL SETUSER "
	for _, word := range redistest.Rights(t) {
		words += " " + strings.Replace(strings.Replace(word, "~test-*", "~captcha:*", 1), "&test-*", "&captcha:*", 1)
	}
	ask(words)
	login := "redis://poold:" + redistest.Password + "@" + addr
	found := try(t, login)
	if found.Where != addr || !strings.Contains(found.Version, ".") || len(found.Faults) > 0 {
		t.Errorf("all is well: %+v", found)
	}

	for _, c := range []struct{ fault, mended, want string }{
		{"ACL SETUSER poold resetkeys ~other:*", "ACL SETUSER poold resetkeys ~captcha:*", "denies its user a command, a key or a channel"},
		{"ACL SETUSER poold -evalsha -eval", "ACL SETUSER poold +evalsha +eval", "denies its user a command, a key or a channel"},
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
