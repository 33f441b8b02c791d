package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// solveDaemon answers POST /solve in the form of the API (docs/solve.md), and stores the last
// request.
type solveDaemon struct {
	status int
	answer string

	header http.Header
	body   []byte
	asked  targets.SolveRequest
	calls  int
}

func (d *solveDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.calls++
	d.header = r.Header
	d.body, _ = io.ReadAll(r.Body)
	if r.Method != http.MethodPost || r.RequestURI != "/solve" || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "no such route", http.StatusNotFound)
		return
	}
	asked, err := targets.ReadSolve(d.body)
	if err != nil {
		var problems targets.Problems
		_ = errors.As(err, &problems)
		list := []string{}
		for _, p := range problems {
			list = append(list, p.String())
		}
		text, _ := json.Marshal(list)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"bad_request","detail":"the request cannot be carried out as it stands","problems":`+string(text)+`}`)
		return
	}
	d.asked = asked
	if d.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "7")
	}
	w.WriteHeader(d.status)
	answer := d.answer
	if answer == "" && r.Header.Get("Accept") == "text/plain" {
		answer = "03AF-token"
	} else if answer == "" {
		answer = `{"id":"i","token":"03AF-token","source":"solve"}` + "\n"
	}
	_, _ = io.WriteString(w, answer)
}

func runSolve(t *testing.T, d *solveDaemon, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(d)
	defer server.Close()
	with := map[string]string{"POOLD_URL": server.URL, "POOLD_KEY": "key1"}
	for name, value := range env {
		with[name] = value
	}
	return runCommand(t, with, append([]string{"solve"}, args...)...)
}

// Every field of a request can be set on the command line, and its value arrives unchanged.
func TestSolveFields(t *testing.T) {
	dir := t.TempDir()
	picture, proxy := filepath.Join(dir, "picture"), filepath.Join(dir, "proxy")
	writeFile(t, picture, "picture")
	writeFile(t, proxy, "user:password@192.0.2.1:3128\n")
	const page = " --pageurl https://example.com/login"
	sum := sha256.Sum256([]byte("picture"))
	for _, c := range []struct {
		args string
		want targets.SolveRequest
	}{
		{"--type recaptcha_v2 --sitekey k --invisible --enterprise --data-s d --user-agent u --proxy-type socks5 --proxy-file " + proxy + page,
			targets.SolveRequest{Identity: captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "k", Invisible: true, Enterprise: true,
				DataS: "d", UserAgent: "u", Proxy: "user:password@192.0.2.1:3128", ProxyType: "socks5"}}},
		{"--type recaptcha_v3 --sitekey k --action a --min-score 0.7 --timeout 1m30s" + page,
			targets.SolveRequest{Identity: captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "k", Action: "a", MinScore: 0.7}, Timeout: 90 * time.Second}},
		{"--type turnstile --sitekey k --data 0 --dedup identity --dedup-proxy" + page,
			targets.SolveRequest{Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: "k", Data: "0"}, Dedup: targets.DedupIdentity, DedupProxy: true}},
		{"--type hcaptcha --sitekey k --rqdata r" + page,
			targets.SolveRequest{Identity: captcha.Identity{Type: captcha.HCaptcha, Sitekey: "k", RQData: "r"}}},
		{"--type geetest --gt g --challenge c --api-server api-na.geetest.com" + page,
			targets.SolveRequest{Identity: captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", APIServer: "api-na.geetest.com"}}},
		{"--type geetest_v4 --captcha-id i" + page,
			targets.SolveRequest{Identity: captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i"}}},
		{"--type image --charset digits --case-sensitive --min-length 2 --max-length 9 --phrase --math --language en --instructions left --image " + picture,
			targets.SolveRequest{Image: []byte("picture"), Identity: captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{
				SHA256: hex.EncodeToString(sum[:]), Charset: captcha.Digits, CaseSensitive: true, MinLength: 2, MaxLength: 9, Phrase: true, Math: true, Language: "en", Instructions: "left"}}}},
	} {
		daemon := &solveDaemon{status: 200}
		code, stdout, stderr := runSolve(t, daemon, nil, strings.Fields(c.args)...)
		if code != 0 || stdout != "03AF-token\n" || stderr != "" {
			t.Errorf("%s: exit %d, %q, %s", c.args, code, stdout, stderr)
		}
		if c.want.Identity.Type != captcha.Image {
			c.want.Identity.Pageurl = "https://example.com/login"
		}
		if c.want.Timeout == 0 {
			c.want.Timeout = 2 * time.Minute
		}
		if c.want.Dedup == "" {
			c.want.Dedup = targets.DedupRequest
		}
		if !reflect.DeepEqual(daemon.asked, c.want) {
			t.Errorf("%s: asked for %+v\nwant %+v", c.args, daemon.asked, c.want)
		}
	}
	_, help, _ := runCommand(t, nil, "solve", "--help")
	for _, f := range targets.RequestFields() {
		if !strings.Contains(help, "\n      --"+strings.ReplaceAll(f.Key, "_", "-")) {
			t.Errorf("no flag for %s", f.Key)
		}
	}
}

// The test checks the output and the errors of `poold solve`.
func TestSolveCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		writeFile(t, filepath.Join(dir, name), text)
		return " " + filepath.Join(dir, name)
	}
	const (
		v2      = "--type recaptcha_v2 --sitekey k --pageurl https://example.com/"
		geetest = `{"geetest_challenge":"c","geetest_validate":"v"}`
	)
	for _, c := range []struct {
		args   string
		status int
		answer string
		code   int
		stdout string
		stderr string // start of stderr
		calls  int
	}{
		{v2, 200, "", 0, "03AF-token\n", "", 1},
		{v2 + " --json", 200, "", 0, `{"id":"i","token":"03AF-token","source":"solve"}` + "\n", "", 1},
		{"--type geetest --gt g --challenge c --pageurl https://example.com/", 200, geetest, 0, geetest + "\n", "", 1},
		{"--type recaptcha_v2 --sitekey k", 200, "", 1, "",
			"poold solve: bad_request: the request cannot be carried out as it stands\n  pageurl: is missing: recaptcha_v2 needs it\n", 1},
		{"--type funcaptcha --gt g", 200, "", 1, "", "poold solve: bad_request: the request cannot be carried out as it stands\n  type: must be ", 1},
		{v2, 422, `{"code":"solve_refused","detail":"ERROR_GOOGLEKEY"}`, 1, "", "poold solve: solve_refused: ERROR_GOOGLEKEY\n", 1},
		{v2, 503, `{"code":"budget_exhausted","detail":"it is used up"}`, 1, "", "poold solve: budget_exhausted: it is used up; try again in 7 s\n", 1},
		{v2, 502, "<html>", 1, "", "poold solve: the daemon answered 502 Bad Gateway\n", 1},
		{"", 200, "", 2, "", "poold solve: needs --type\n", 0},
		{v2 + " now", 200, "", 2, "", `poold solve: unexpected argument "now"`, 0},
		{v2 + " --timeout soon", 200, "", 2, "", "poold solve: invalid value \"soon\" for flag --timeout: ", 0},
		{v2 + " --proxy user:password@host:1", 200, "", 2, "", "poold solve: solve has no --proxy; did you mean --proxy-file?\n", 0},
		{v2 + " --proxy-file " + dir + "/none", 200, "", 1, "", "poold solve: reading the proxy: open ", 0},
		{v2 + " --proxy-file" + file("blank", " \n"), 200, "", 1, "", "poold solve: reading the proxy: " + dir + "/blank is empty\n", 0},
		{"--type image --image " + dir + "/none", 200, "", 1, "", "poold solve: reading the picture: open ", 0},
		{"--type image --image " + dir, 200, "", 1, "", "poold solve: reading the picture: read ", 0},
		{"--type image --image" + file("empty", ""), 200, "", 1, "", "poold solve: the picture " + dir + "/empty is empty\n", 0},
		{"--type image --image" + file("most", strings.Repeat("x", 1<<20)), 200, "", 0, "03AF-token\n", "", 1},
		{"--type image --image" + file("large", strings.Repeat("x", 1<<20+1)), 200, "", 1, "",
			"poold solve: the picture " + dir + "/large has more than 1048576 bytes (1 MiB)\n", 0},
	} {
		daemon := &solveDaemon{status: c.status, answer: c.answer}
		code, stdout, stderr := runSolve(t, daemon, nil, strings.Fields(c.args)...)
		if code != c.code || stdout != c.stdout || !strings.HasPrefix(stderr, c.stderr) || (stderr == "") != (c.stderr == "") || daemon.calls != c.calls {
			t.Errorf("%s: exit %d, %d calls\nstdout: %s\nstderr: %s", c.args, code, daemon.calls, stdout, stderr)
		}
	}
}

// Keys and proxies come from files and the environment, and are sent only to the daemon. The request
// contains only the fields that were given.
func TestSolveSecrets(t *testing.T) {
	proxy := filepath.Join(t.TempDir(), "proxy")
	writeFile(t, proxy, "file:canary@192.0.2.1:1")
	env := map[string]string{"POOLD_PROXY": "env:canary@192.0.2.2:2"}
	args := strings.Fields("--type hcaptcha --sitekey k --pageurl https://example.com/ --proxy-type http --idempotency-key again")
	daemon := &solveDaemon{status: 502, answer: `{"code":"solve_failed","detail":"no"}`}
	code, stdout, stderr := runSolve(t, daemon, env, args...)
	if code != 1 || strings.Contains(stdout+stderr, "canary") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	const want = `{"pageurl":"https://example.com/","proxy":"env:canary@192.0.2.2:2","proxy_type":"http","sitekey":"k","type":"hcaptcha"}`
	if string(daemon.body) != want || daemon.header.Get("Idempotency-Key") != "again" || daemon.header.Get("Authorization") != "Bearer key1" {
		t.Errorf("%s\n%v", daemon.body, daemon.header)
	}
	if runSolve(t, daemon, env, append(args, "--proxy-file", proxy)...); daemon.asked.Identity.Proxy.Reveal() != "file:canary@192.0.2.1:1" {
		t.Errorf("the flag does not beat the environment: %s", daemon.body)
	}
	if runSolve(t, daemon, nil, args[:6]...); daemon.header["Idempotency-Key"] != nil {
		t.Errorf("a key that was not given: %v", daemon.header)
	}
}

// The output of --help fits on a screen, and has one line for every command.
func TestHelpIsShort(t *testing.T) {
	if _, help, _ := runCommand(t, nil, "--help"); strings.Count(help, "\n") > 24 || !strings.Contains(help, "\n  solve ") {
		t.Errorf("%d lines:\n%s", strings.Count(help, "\n"), help)
	}
}
