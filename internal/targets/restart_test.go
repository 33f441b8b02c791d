package targets

import (
	"strings"
	"testing"
)

// A reload applies new certificates for Redis; the users and passwords of sentinels need a restart.
func TestWhatOfRedisNeedsARestart(t *testing.T) {
	load := func(sentinels, tls string) *Set {
		return mustParse(t, "redis: {url: 'rediss://h', sentinel_master: m, "+sentinels+", tls: {ca: "+tls+"}}\n"+minimal(),
			References{})
	}
	old := load("sentinel_password: p", "/old.crt")
	for sentinels, want := range map[string]string{
		"sentinel_password: p":                   "",
		"sentinel_password: q":                   "redis: changed",
		"sentinel_user: u, sentinel_password: p": "redis: changed",
	} {
		set := load(sentinels, "/new.crt")
		remarks, err := set.KeepRestartOnly(old, "pools.yaml")
		if err != nil || (want == "") != (len(remarks) == 0) || !strings.Contains(remarks.Error(), want) {
			t.Errorf("%s: %v, %v", sentinels, remarks, err)
		}
		if set.Redis.TLS.CA != "/new.crt" || set.Redis.SentinelPassword != "p" || set.Redis.SentinelUser != "" {
			t.Errorf("%s: in use is %+v", sentinels, set.Redis)
		}
	}
}
