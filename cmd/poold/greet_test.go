package main

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"poold/internal/redisdb"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// When poold starts, a few log lines name the address of the status page, and a command to take a token.
func TestGreeting(t *testing.T) {
	const (
		login = "targets:\n" +
			"  alone: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: qa@example.com, paused: true}\n" +
			"  login: {type: turnstile, sitekey: y, pageurl: 'https://example.com/', owner: qa@example.com}\n"
		real = "providers: [{name: acme, url: 'https://s.example.com', key: canary1}]\n"
		keys = "server: {keys: [{name: a, key: canary-canary-canary, scopes: [token]}]}\n"
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer func() { _ = listener.Close() }()
	at := listener.Addr().String()
	serving := func(providers, redis string) string {
		return "level=INFO msg=serving address=" + at + " targets=2 redis=" + redis + " providers=" + providers + "\n"
	}
	where := "level=INFO msg=\"the status page\" url=http://" + at +
		"/status\nlevel=INFO msg=\"to take a token\" command=\"curl -s "
	try := "'http://" + at + "/pool/login/token?wait=60s'\"\n"
	greeting := func(listener net.Listener, file, mode, certificate string) string {
		t.Helper()
		set, err := targets.Parse("pools.yaml", []byte(file), targets.References{})
		testkit.NoError(t, err)
		set.Server.TLS.Cert = certificate
		var log bytes.Buffer
		plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		d := &daemon{listener: listener, redis: &redisdb.DB{Mode: mode}, log: slog.New(slog.NewTextHandler(&log, plain))}
		d.greet(set)
		return log.String()
	}
	for _, c := range []struct{ file, mode, want string }{
		{login, "embedded", serving("[simulated]", "embedded") + where + try},
		{"redis: {url: 'redis://h'}\nproviders: [{name: own, protocol: simulated}]\n" + login, "single",
			serving("[own]", "single") + where + try},
		{"redis: {url: 'redis://h'}\n" + keys + real + login, "sentinel", serving("[acme]", "sentinel") + where +
			"--oauth2-bearer $POOLD_KEY " + try},
	} {
		testkit.Equal(t, c.file, greeting(listener, c.file, c.mode, ""), c.want)
	}
	everywhere, err := net.Listen("tcp", "0.0.0.0:0")
	testkit.NoError(t, err)
	defer func() { _ = everywhere.Close() }()
	_, port, _ := net.SplitHostPort(everywhere.Addr().String())
	if text := greeting(everywhere, login, "embedded", "cert.pem"); !strings.Contains(text, "url=https://127.0.0.1:"+port+
		"/status\n") {
		t.Errorf("a listener on every address: %s", text)
	}
}
