package cli_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"poold/internal/cli"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// daemon answers each request by its method and path, and with the keys "CODE" and "TYPE" of the map.
type daemon struct {
	answers map[string]string
	status  int // 0 = 200
	header  http.Header

	mu    sync.Mutex
	asked []string // method, address, Accept and body of each request
	sent  http.Header
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	d.sent = r.Header
	d.asked = append(d.asked, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	for name, values := range d.header {
		w.Header()[name] = values
	}
	text, known := d.answers[r.Method+" "+r.URL.EscapedPath()]
	switch {
	case !known:
		text = d.answers[""]
		w.WriteHeader(max(d.status, http.StatusOK))
	case text == "":
		w.WriteHeader(http.StatusNoContent)
	}
	_, _ = io.WriteString(w, text)
}

// run runs a command line against the daemon.
func (d *daemon) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log strings.Builder
	code = d.runTo(t, &out, &log, nil, args...)
	return code, out.String(), log.String()
}

func (d *daemon) runTo(t *testing.T, stdout, stderr io.Writer, env map[string]string, args ...string) int {
	t.Helper()
	server := httptest.NewServer(d)
	defer server.Close()
	return program().Run(t.Context(), consoleAt(server.URL, stdout, stderr, env), args)
}

func consoleAt(url string, stdout, stderr io.Writer, env map[string]string) *cli.Console {
	return &cli.Console{Stdout: stdout, Stderr: stderr, Lookup: func(name string) (string, bool) {
		value, ok := env[name]
		switch {
		case ok:
			return value, true
		case name == "POOLD_URL":
			return url, true
		case name == "POOLD_KEY":
			return "key1", true
		}
		return "", false
	}}
}

func program() cli.Program {
	empty := func(use string) func(*cli.Console) *cobra.Command {
		return func(*cli.Console) *cobra.Command {
			return &cobra.Command{Use: use, RunE: func(*cobra.Command, []string) error { return nil }}
		}
	}
	return cli.Program{
		Version: "1.2.3", Serve: empty("serve"), HistoryInit: empty("init"),
		Others: func(*cli.Console) []*cobra.Command { return nil },
	}
}

// The key goes to no other address.
func TestTheKeyFollowsNoRedirect(t *testing.T) {
	d := &daemon{status: http.StatusTemporaryRedirect, header: http.Header{"Location": {"/elsewhere"}}}
	if code, _, stderr := d.run(t, "reload"); code != 1 || len(d.asked) != 1 || !strings.Contains(stderr, "307") {
		t.Errorf("exit %d, asked %q: %s", code, d.asked, stderr)
	}
}

// A missing key is named by the flag and the variable, not by a header.
func TestAMissingKeyIsNamed(t *testing.T) {
	d := &daemon{status: http.StatusUnauthorized}
	var stderr strings.Builder
	if d.runTo(t, io.Discard, &stderr, map[string]string{"POOLD_KEY": ""}, "reload"); !strings.Contains(stderr.String(),
		"set POOLD_KEY") {
		t.Error(stderr.String())
	}
}

// Each command sends its requests and prints the answer. A command that prints something fails if it
// cannot print.
func TestCommands(t *testing.T) {
	shown := map[string]string{
		"POST /pool/login/pause": "", "POST /pool/login/resume": "", "DELETE /pool/login/tokens": "", "POST /-/reload": "",
		"POST /pool/login/token/I%2F1/report": "", "POST /solve/I1/report": "",
		"POST /providers/ac%2Fme/probe": `{"state":"down","reason":"no money","remedy":"top it up"}`,
		"POST /dead-letters/replay":     `{"replayed":3,"dropped":2,"expired":4,"left":1}`,
		"GET /dead-letters":             `{"letters":[{"order":"o1","task":"t\u202e","age_s":75}]}`,
		"GET /events": `{"events":[{"at":"2026-01-02T03:04:05Z","kind":"k\u001b[2J","subject":"a\nb",` +
			`"text":"` + strings.Repeat("x", 5000) + `"}]}`,
		"GET /readyz": `{"ready":true}`,
	}
	text, err := os.ReadFile("testdata/commands.yaml")
	testkit.NoError(t, err)
	var list []struct {
		Args, Asked, Printed string
		Answer               *string
		Status, Code         int
	}
	testkit.NoError(t, yaml.Unmarshal(text, &list))
	today := time.Now().UTC().Format(time.DateOnly)
	for _, c := range list {
		args, answers := strings.Split(c.Args, " "), shown
		if c.Answer != nil {
			answers = map[string]string{"": *c.Answer}
		}
		c.Asked, c.Printed = strings.ReplaceAll(c.Asked, "TODAY", today),
			strings.ReplaceAll(c.Printed, "X600", strings.Repeat("x", 600))
		header := http.Header{"Content-Type": {"text/csv"}, "Link": {`<?cursor=CUR&limit=1>; rel="next"`},
			"Retry-After": {"7\u009b"}}
		d := &daemon{answers: answers, status: c.Status, header: header}
		code, stdout, stderr := d.run(t, args...)
		if asked := strings.Join(d.asked, ", "); code != c.Code || asked != c.Asked || !matches(stdout+stderr, c.Printed) {
			t.Errorf("%q: exit %d, asked %s\n%swant\n%s", args, code, asked, stdout+stderr, c.Printed)
		}
		wanted := "application/json"
		switch {
		case strings.Contains(c.Args, "--csv"):
			wanted = "text/csv"
		case (args[0] == "token" || args[0] == "solve") && !strings.Contains(c.Args, "--json"):
			wanted = "text/plain"
		}
		if accepted := d.sent.Get("Accept"); accepted != "" && accepted != wanted {
			t.Errorf("%q: Accept %s, want %s", args, accepted, wanted)
		}
		if stdout != "" {
			d := &daemon{answers: answers, header: header}
			var log strings.Builder
			if code := d.runTo(t, full{}, &log, nil, args...); code != cli.ExitFailed && args[0] != "--version" {
				t.Errorf("%q without a place to print: exit %d, %s", args, code, log.String())
			}
		}
	}
}

func split(words string) []string { return strings.Fields(words) }

// matches compares a text with a pattern; "…" at the end of the pattern matches any text.
func matches(text, pattern string) bool {
	if beginning, cut := strings.CutSuffix(pattern, "…"); cut && !strings.HasSuffix(text, "…") {
		return strings.HasPrefix(text, beginning)
	}
	return text == pattern
}

// full fails like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// A plain request to a port with TLS says so.
func TestPlainRequestToATLSPort(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	var log strings.Builder
	plain := "http" + strings.TrimPrefix(server.URL, "https")
	code := program().Run(t.Context(), consoleAt(plain, io.Discard, &log, nil), []string{"reload"})
	if code != 1 || !strings.Contains(log.String(), "400 Bad Request: Client sent an HTTP request to an HTTPS server") {
		t.Errorf("exit %d, %s", code, log.String())
	}
}

// Every field of POST /solve can be set on the command line, and its value arrives unchanged. Keys,
// pictures and proxies come from files and the environment.
func TestSolve(t *testing.T) {
	dir, args, want := t.TempDir(), []string{"solve"}, map[string]any{}
	for _, f := range targets.RequestFields() {
		flag, value := "--"+strings.ReplaceAll(f.Key, "_", "-"), "the "+f.Key
		switch want[f.Key] = value; f.Type.Kind() {
		case reflect.Bool:
			args, want[f.Key] = append(args, flag), true
			continue
		case reflect.Int, reflect.Float64:
			value, want[f.Key] = "7", 7.0
		}
		if f.Key == "image" || f.Key == "proxy" {
			testkit.NoError(t, os.WriteFile(dir+flag, []byte(value), 0o600))
			flag, value = map[string]string{"image": flag, "proxy": "--proxy-file"}[f.Key], dir+flag
		}
		args = append(args, flag, value)
	}
	want["image"] = base64.StdEncoding.EncodeToString([]byte("the image"))
	solving := &daemon{answers: map[string]string{"POST /solve": "03AF"}}
	code, stdout, stderr := solving.run(t, args...)
	var got map[string]any
	testkit.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(strings.Join(solving.asked, ""), "POST /solve ")), &got))
	if code != 0 || stdout != "03AF\n" || stderr != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("exit %d, %s%s\nasked for %+v\nwant %+v", code, stdout, stderr, got, want)
	}
	d := &daemon{answers: map[string]string{"POST /solve": "03AF"}}
	env := map[string]string{"POOLD_PROXY": "env:canary@192.0.2.2:2"}
	d.runTo(t, io.Discard, io.Discard, env, "solve", "--type", "hcaptcha", "--idempotency-key", "again")
	if want := `POST /solve {"proxy":"env:canary@192.0.2.2:2","type":"hcaptcha"}`; d.asked[0] != want ||
		d.sent.Get("Idempotency-Key") != "again" || d.sent.Get("Authorization") != "Bearer key1" {
		t.Errorf("%s %v", d.asked, d.sent)
	}
}

// The scripts of the shells complete commands.
func TestCompletion(t *testing.T) {
	d := new(daemon)
	if _, stdout, _ := d.run(t, "__complete", "history", "us"); !strings.HasPrefix(stdout, "usage\tshow") {
		t.Errorf("%q", stdout)
	}
	for shell, part := range map[string]string{"bash": "__start_poold", "zsh": "#compdef poold",
		"fish": "complete -c poold"} {
		if code, script, stderr := d.run(t, "completion", shell); code != 0 || !strings.Contains(script, part) {
			t.Errorf("%s: exit %d: %s", shell, code, stderr)
		}
	}
}

// A status is printed every 2 s, also after an outage, which is reported. An interrupt ends the command
// with success. The first status must succeed.
func TestWatch(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = fmt.Fprintf(w, `{"as_of":"%d"}`, asked)
	}))
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var printed, log testkit.Log
	ended := make(chan int, 1)
	go func() {
		ended <- program().Run(ctx, consoleAt(server.URL, &printed, &log, nil), split("status --watch"))
	}()
	testkit.Within(t, 30*time.Second, "the third status",
		func() bool { return strings.Contains(printed.String(), "as of 3\n") })
	stop()
	if code := <-ended; code != 0 || log.String() != "not live: the daemon answered 502 Bad Gateway\n" ||
		!strings.HasPrefix(printed.String(), "as of 1\n") {
		t.Errorf("exit %d, %s\n%s", code, log.String(), printed.String())
	}
}

// No control character of a daemon reaches a terminal. A device file is taken for a terminal.
func TestTerminal(t *testing.T) {
	testkit.Equal(t, "printable", cli.PrintableLines("token\x1b[2J\u009b\xff\n\tend"), "token\uFFFD[2J\uFFFD\uFFFD\n\tend")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	testkit.NoError(t, err)
	defer func() { _ = null.Close() }()
	if !cli.IsTerminal(null) || cli.IsTerminal(io.Discard) {
		t.Error("a device is no terminal, or a writer is one")
	}
	if text := cli.Printable("漢\n" + strings.Repeat("x", 5000)); len([]rune(text)) != 601 ||
		strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("%q", text)
	}
}

// The log has durations as text, and omits unknown times.
func TestLogIsReadable(t *testing.T) {
	var text strings.Builder
	logger := cli.LogFlags(&cobra.Command{}, &cli.Console{Stderr: &text})
	log, lines, err := logger()
	testkit.NoError(t, err)
	log.Debug("not shown")
	log.Info("tasks", "until", time.Time{}, "retry_at", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "took",
		90*time.Second)
	lines.Close()
	if !strings.HasSuffix(text.String(), "msg=tasks retry_at=2026-01-02T03:04:05.000Z took=1m30s\n") ||
		strings.Count(text.String(), "\n") != 1 {
		t.Error(text.String())
	}
}

// A hanging reader of stderr blocks nothing: lines are dropped and counted.
func TestLogDoesNotBlock(t *testing.T) {
	reader, stderr := io.Pipe()
	log, lines, err := cli.LogFlags(&cobra.Command{}, &cli.Console{Stderr: stderr})()
	testkit.NoError(t, err)
	for range 20_000 {
		log.Info("a request")
	}
	dropped := lines.Dropped()
	if dropped < 9_000 || dropped > 10_000 {
		t.Errorf("%d lines were dropped", dropped)
	}
	got := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader)
		got <- string(text)
	}()
	lines.Close()
	_ = stderr.Close()
	testkit.Equal(t, "lines that came", strings.Count(<-got, "a request"), 20_000-int(dropped))
}

// Small amounts have more digits.
func TestAmountHasTwoSignificantDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 4.1: "4.10", 0.0996: "0.100", 0.0299: "0.030",
		0.000001: "0.0000010"} {
		testkit.Equal(t, fmt.Sprint(x), cli.Amount(x), want)
	}
}
