package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// runCommand runs poold in this process and returns its exit code. Scripts depend on the exit codes,
// so the tests contain the numbers.
func runCommand(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log strings.Builder
	code = run(t.Context(), args, func(name string) (string, bool) { value, ok := env[name]; return value, ok }, &out, &log)
	return code, out.String(), log.String()
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	writeFile(t, good, serverless)
	writeFile(t, bad, "providers: 5\n")
	writeFile(t, dir+"/blank", " \n")
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // parts of the output
	}{
		{"version", 0, "poold dev, commit ", ""},
		{"--version", 0, "poold dev, commit ", ""},
		{"help", 0, "usage: poold", ""},
		{"schema", 0, `"$schema": "https://json-schema.org/draft/2020-12/schema"`, ""},
		{"schema pools.yaml", 2, "", `unexpected argument "pools.yaml"`},
		{"-h", 0, "usage: poold", ""},
		{"serve --help", 0, "-log-level", ""},
		{"check --config " + good, 0, "is valid; targets: 1, providers: 1", ""},
		{"check --config " + bad, 1, bad + ":1: error: providers: ", "problems in " + bad + ": 2"},
		{"check --config " + dir + "/none.yaml", 1, dir + "/none.yaml: error: the file cannot be read: no such file or directory; name the file with --config (or POOLD_CONFIG)", "problems in"},
		// The first log line of a start precedes every step that can wait, even the reading of the
		// file.
		{"serve --config " + dir + "/none.yaml", 1, "", `msg=starting version=dev commit=`},
		{"serve --config " + bad, 1, "", bad + ":1: providers: "},
		{"healthcheck --url http://127.0.0.1:1", 1, "", "asking the daemon: "},
		{"healthcheck --url 127.0.0.1:1", 2, "", "--url must be like http://"},
		{"healthcheck --url ftp://127.0.0.1:1", 2, "", "--url must be like http://"},
		{"healthcheck --url http://user:password@127.0.0.1:1", 2, "", "--url holds a user or a password, which other users could read"},
		{"healthcheck --key-file " + dir + "/none", 1, "", "reading the key: "},
		{"healthcheck --key-file " + dir + "/blank", 1, "", "reading the key: " + dir + "/blank is empty\n"},
		{"healthcheck now", 2, "", `unexpected argument "now"`},
		{"check --no-such-flag", 2, "", "no-such-flag"},
		{"nonsense", 2, "", `there is no command "nonsense"`},
		{"serve --log-level loud", 2, "", "--log-level is debug, info, warn or error"},
		{"serve --log-format xml", 2, "", "--log-format is text or json"},
		{"serve --listen 127.0.0.1", 2, "", "--listen (or POOLD_LISTEN) is host:port"},
		{"serve --listen 127.0.0.1:65536", 2, "", "--listen (or POOLD_LISTEN) is host:port"},
		{"token", 2, "", "needs the name of a target"},
		{"token a b", 2, "", `unexpected argument "b"`},
	} {
		code, stdout, stderr := runCommand(t, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			(stdout == "") != (c.stdout == "") || (stderr == "") != (c.stderr == "") {
			t.Errorf("%s: exit %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// A flag overrides the environment, which overrides the file or the default. An empty variable
// counts as unset.
func TestFlagsOverrideTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", nil, "pools.yaml: "},
		{file("env"), nil, file("env") + ": "},
		{file("env"), []string{"--config", file("flag")}, file("flag") + ": "},
	} {
		_, stdout, _ := runCommand(t, map[string]string{"POOLD_CONFIG": c.env}, append([]string{"check"}, c.args...)...)
		if !strings.HasPrefix(stdout, c.want) {
			t.Errorf("POOLD_CONFIG=%s %v: %s", c.env, c.args, stdout)
		}
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	// The start fails for two addresses: one is open to the network, so the checks of the file
	// refuse it, and one is in use, so the daemon cannot bind it. The error shows which of the two
	// addresses the daemon used.
	const open, openText, takenText = "0.0.0.0:1", "the daemon listens on loopback addresses only", "address already in use by another program or another poold: stop it, or choose another address with --listen (or POOLD_LISTEN, or server.listen in the file)"
	writeFile(t, file("taken"), "server: {listen: '"+taken.Addr().String()+"'}\n"+serverless)
	writeFile(t, file("open"), "server: {listen: '"+open+"'}\n"+serverless)
	for _, c := range []struct{ config, env, flag, want string }{
		{"taken", "", "", takenText},
		{"open", "", "", openText},
		{"taken", open, "", openText},
		{"taken", open, taken.Addr().String(), takenText},
		{"taken", taken.Addr().String(), open, openText},
	} {
		args := []string{"serve", "--config", file(c.config)}
		if c.flag != "" {
			args = append(args, "--listen", c.flag)
		}
		code, _, stderr := runCommand(t, map[string]string{"POOLD_LISTEN": c.env}, args...)
		if code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("file %s, POOLD_LISTEN=%s, --listen %s: exit %d: %s", c.config, c.env, c.flag, code, stderr)
		}
	}

	var asked string
	daemon := func(name string) string {
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = name + " " + r.Header.Get("Authorization")
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	env := map[string]string{"POOLD_URL": daemon("env") + "/", "POOLD_KEY": "key-of-env"}
	writeFile(t, file("key"), "\n key-of-file\r\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "env Bearer key-of-env"},
		{[]string{"--url", daemon("flag"), "--key-file", file("key")}, "flag Bearer key-of-file"},
	} {
		if code, _, stderr := runCommand(t, env, append([]string{"healthcheck"}, c.args...)...); code != 0 || asked != c.want {
			t.Errorf("%v: exit %d, asked %s\n%s", c.args, code, asked, stderr)
		}
	}
}

// `poold token` prints only the token. It uses a method that proxies and HTTP clients do not
// repeat.
func TestTokenCommand(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		answer string
		asked  string
		code   int
		stdout string
		stderr string
	}{
		{"login", 200, "03AF", "POST /pool/login/token text/plain", 0, "03AF\n", ""},
		{"login --wait 1m30s", 200, "03AF", "POST /pool/login/token?wait=1m30s text/plain", 0, "03AF\n", ""},
		{"--wait 0s login", 200, "03AF", "POST /pool/login/token?wait=0s text/plain", 0, "03AF\n", ""},
		{"login --min-ttl 30s", 200, "03AF", "POST /pool/login/token?min_ttl=30s text/plain", 0, "03AF\n", ""},
		{"login --json --min-ttl 1m --wait 20s", 200, "{\"token\":\"03AF\"}\n", "POST /pool/login/token?min_ttl=1m0s&wait=20s application/json", 0, "{\"token\":\"03AF\"}\n", ""},
		{"a/b?c", 404, `{"code":"unknown_target","detail":"none"}`, "POST /pool/a%2Fb%3Fc/token text/plain", 1, "", "unknown_target: none"},
		{"login", 503, `{"code":"pool_empty"}`, "POST /pool/login/token text/plain", 1, "", "pool_empty; try again in 7 s"},
		{"login", 502, `<html>`, "POST /pool/login/token text/plain", 1, "", "the daemon answered 502 Bad Gateway"},
		{"login", 204, ``, "POST /pool/login/token text/plain", 1, "", "the daemon answered 204 No Content"},
	} {
		asked := ""
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.RequestURI + " " + r.Header.Get("Accept")
			if c.status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "7")
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		}))
		code, stdout, stderr := runCommand(t, map[string]string{"POOLD_URL": daemon.URL}, append([]string{"token"}, strings.Fields(c.args)...)...)
		daemon.Close()
		if code != c.code || asked != c.asked || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
			t.Errorf("token %s: exit %d, asked %s\nstdout: %s\nstderr: %s", c.args, code, asked, stdout, stderr)
		}
	}
}
