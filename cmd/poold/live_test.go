package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// `poold check --live` tries Redis and each provider's key. It buys nothing, and prints each
// problem as one line without control sequences.
func TestCheckLive(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef0123456789abcdef"
	var services []*simulatedtest.Service
	service := func(o simulatedtest.Setup) string {
		s := simulatedtest.New(o)
		server := httptest.NewServer(s)
		t.Cleanup(func() { server.Close(); s.Close() })
		services = append(services, s)
		return server.URL
	}
	says := func(text string) string {
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	path := filepath.Join(t.TempDir(), "pools.yaml")
	check := func(redis, provider string) (code int, lines string) {
		t.Helper()
		writeFile(t, path, fmt.Sprintf("redis: {url: '%s'}\nproviders:\n%s\n"+
			"targets:\n  login: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: qa@example.com, "+
			"budget: {per_day: 1}}\n", redis, provider))
		code, out, log := runCommand(t, nil, "check", "--live", "--config", path)
		if strings.Contains(out+log, key) || strings.Contains(out+log, "canary") ||
			strings.ContainsFunc(out+log, func(c rune) bool { return c < ' ' && c != '\n' }) {
			t.Errorf("it shows a secret or a control character: %.300q", out+log)
		}
		testkit.AtMost(t, "bytes of output", len(out), 2000)
		_, lines, _ = strings.Cut(out, "is valid; ")
		return code, lines
	}
	kept := redistest.Server(t, "--appendonly", "yes", "--dir", t.TempDir())
	forgets := redistest.Server(t)
	provider := func(profile, url string) string {
		return fmt.Sprintf("  - {name: acme, service: %s, url: '%s', key: %s}", profile, url, key)
	}
	sound := provider("2captcha", service(simulatedtest.Setup{Key: key}))
	for _, c := range []struct {
		name, redis, provider string
		code                  int
		want                  string
	}{
		{"all is well", "redis://" + kept, sound, 0, "ok: redis: " + kept + ", version "},
		{"all is well", "redis://" + kept, sound, 0, "ok: provider acme: accepts the key; balance "},
		{"threads", "redis://" + kept,
			provider("captchaai", service(simulatedtest.Setup{Key: key, Threads: 7})), 0,
			", threads 7 (concurrency 20)\n"},
		{"no answer about threads", "embedded", provider("captchaai", service(simulatedtest.Setup{Key: key,
			Faults: []simulatedtest.Fault{{On: "threads", Kind: simulatedtest.Status}}})), 1,
			"error: provider acme: reading the threads: "},
		{"embedded", "embedded", sound, 0, "ok: redis: embedded, keeps nothing over a restart\n"},
		{"simulated", "embedded", "  - {name: acme, protocol: simulated}", 0,
			"ok: provider acme: simulated, no site accepts its tokens\n"},
		{"no AOF", "redis://" + forgets, sound, 1, "error: redis: Redis keeps no append-only file"},
		{"no Redis", "redis://:canary@127.0.0.1:1", sound, 1,
			"error: redis: redis refuses the connection: nothing listens there (127.0.0.1:1)\nok: provider acme"},
		{"a wrong key", "embedded", provider("2captcha",
			service(simulatedtest.Setup{Key: "fedcba9876543210fedcba9876543210"})), 1,
			"error: provider acme: reading the balance: ERROR_KEY_DOES_NOT_EXIST: the service refuses the key: " +
				"check providers.acme.key in the configuration file"},
		{"no money", "embedded", provider("2captcha", says("0")), 1,
			"error: provider acme: accepts the key; balance 0: nothing can be bought\n"},
		{"no threads", "embedded", provider("captchaai", says(`{"status":1,"request":"0","threads":0}`)), 1,
			"threads 0: nothing can be bought\n"},
		{"a hostile service", "embedded", provider("2captcha", says("ERROR_\x1b[2J\a\r"+strings.Repeat("x", 10<<10))), 1,
			"error: provider acme: "},
	} {
		if code, lines := check(c.redis, c.provider); code != c.code || !strings.Contains(lines, c.want) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", c.name, code, c.code, c.want, lines)
		}
	}
	for _, s := range services {
		testkit.Equal(t, "tasks that it bought", len(s.Sold()), 0)
	}
}
