package targets

import (
	"fmt"
	"strings"
	"testing"
)

// The result of RestartNeeded contains no part of a password, even if the password contains a comma, the
// separator between addresses. The result contains only addresses that are in the file.
func TestRestartNeededShowsNoSecret(t *testing.T) {
	const file = "redis: {url: 'rediss://user:canary@a:1,rediss://:canary@b:2', prefix: p}\nproviders: [{name: s, protocol: simulated}]\n" +
		"dedup: {backend: postgres, url: 'postgres://u:with,canary@db,127.0.0.2:5433/x?password=canary'}\n" +
		"history: {backend: dynamodb, endpoint: 'http://127.0.0.1:8000', region: eu-central-1, keep: 48h}\n" +
		"targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: qa@example.com}\n"
	const rest = "dead_letters:./dead-letters dedup:postgres postgres://db,127.0.0.2:5433/x history:dynamodb keep 48h audit 168h CaptchaSolves http://127.0.0.1:8000 eu-central-1 " +
		"redis:rediss://a:1,rediss://b:2 prefix p "
	for _, listen := range []string{"", "127.0.0.1:9"} {
		set := mustParse(t, file, References{})
		if listen != "" {
			if err := set.OverrideListen("pools.yaml", listen); err != nil {
				t.Fatal(err)
			}
		}
		want := "map[" + rest + "server.listen:127.0.0.1:8080 server.tls:]"
		if listen != "" {
			want = "map[" + rest + "server.tls:]"
		}
		if got := fmt.Sprint(set.RestartNeeded()); got != want {
			t.Errorf("--listen %q:\n%s\nwant\n%s", listen, got, want)
		}
	}
}

// A reload applies new certificates for Redis; the users and passwords of sentinels need a restart.
func TestWhatOfRedisNeedsARestart(t *testing.T) {
	load := func(sentinels, tls string) *Set {
		return mustParse(t, "redis: {url: 'rediss://h', sentinel_master: m, "+sentinels+", tls: {ca: "+tls+"}}\n"+minimal(), References{})
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
