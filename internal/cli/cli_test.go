package cli_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"poold/internal/captcha"
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
		switch name {
		case "POOLD_URL":
			return url, true
		case "POOLD_KEY":
			return "key1", true
		}
		return value, ok
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

const (
	orders = `{"records":[{"id":"O1","target":"login","owner":"qa","code":"","price":0.00299},
 {"id":"O2","target":"/solve","owner":"","code":"ERROR_\u001b[2J","price":null}],"next":"CUR"}`
	usage = `{"lines":[{"date":"2026-01-02","key":"-","handed_out":5,"spent":1.23456789}]}`
	csv   = "id,target\r\nO1,login\r\n"
)

// Each command sends its requests and prints the answer. A command that prints something fails if it
// cannot print.
func TestCommands(t *testing.T) {
	shown := map[string]string{
		"POST /pool/login/pause": "", "POST /pool/login/resume": "", "DELETE /pool/login/tokens": "", "POST /-/reload": "",
		"POST /pool/login/token/I%2F1/report": "", "POST /solve/I1/report": "",
		"POST /providers/ac%2Fme/probe": `{"state":"down","reason":"no money","remedy":"top it up"}`,
		"POST /dead-letters/replay":     `{"replayed":3,"dropped":2,"expired":4,"left":1}`,
		"GET /dead-letters":             `{"letters":[{"order":"o1","task":"t\u202e","age_s":75}],"incomplete":true}`,
		"GET /events":                   `{"events":[{"at":"2026-01-02T03:04:05Z","kind":"k\u001b[2J","subject":"a\nb","text":"` + strings.Repeat("x", 5000) + `"}],"next":"17"}`,
		"GET /readyz":                   `{"ready":true}`,
	}
	only := func(text string) map[string]string { return map[string]string{"": text} }
	today := time.Now().UTC().Format(time.DateOnly)
	for _, c := range []struct {
		args    []string
		answers map[string]string
		status  int
		asked   string
		code    int
		printed string // stdout and stderr; "…" at the end = the beginning
	}{
		{split("token login"), only(" 03AF\r\n"), 0, "POST /pool/login/token", 0, "03AF\n"},
		{split("token --wait 0s login"), only("03AF"), 0, "POST /pool/login/token?wait=0s", 0, "03AF\n"},
		{split("token login --json --min-ttl 60 --wait 20s"), only("{}\n"), 0, "POST /pool/login/token?min_ttl=60&wait=20s", 0, "{}\n"},
		{split("token a/b?c"), only(`{"code":"unknown_target","detail":"none"}`), 404, "POST /pool/a%2Fb%3Fc/token", 1, "poold token: unknown_target: none…"},
		{split("token login"), only(`{"code":"pool_empty"}`), 503, "POST /pool/login/token", 3, "poold token: pool_empty; try again in 7\uFFFD s\n"},
		{split("token login"), only("<html>"), 502, "POST /pool/login/token", 1, "poold token: the daemon answered 502 Bad Gateway\n"},
		{split("token login"), only(""), 204, "POST /pool/login/token", 1, "poold token: the daemon's answer is empty\n"},
		{split("pause login"), shown, 0, "POST /pool/login/pause", 0, "login: paused\n"},
		{[]string{"pause", "login", "--for", "2h", "--reason", "a\tb"}, shown, 0, `POST /pool/login/pause {"for":"2h","reason":"a\tb"}`, 0, "login: paused\n"},
		{split("pause login --json"), shown, 0, "POST /pool/login/pause", 0, "{}\n"},
		{split("resume login"), shown, 0, "POST /pool/login/resume", 0, "login: resumed\n"},
		{split("flush login"), shown, 0, "DELETE /pool/login/tokens", 0, "login: flushed\n"},
		{split("reload"), shown, 0, "POST /-/reload", 0, "the file was read again\n"},
		{split("reload"), only(`{"code":"invalid_config","problems":["pools.yaml:1: a\nb"]}`), 422, "POST /-/reload", 1,
			"poold reload: invalid_config; try again in 7\uFFFD s\n  pools.yaml:1: a\uFFFDb\n"},
		{split("report login I/1 rejected"), shown, 0, `POST /pool/login/token/I%2F1/report {"outcome":"rejected"}`, 0, "login: reported\n"},
		{split("report I1 accepted"), shown, 0, `POST /solve/I1/report {"outcome":"accepted"}`, 0, "I1: reported\n"},
		{split("probe ac/me"), shown, 0, "POST /providers/ac%2Fme/probe", 0, "ac/me: probed; state down; reason no money; remedy top it up\n"},
		{split("dead-letters replay"), shown, 0, "POST /dead-letters/replay", 0, "retried; replayed 3; dropped 2; expired 4; left 1\n"},
		{split("dead-letters list"), shown, 0, "GET /dead-letters", 0,
			"ORDER  TASK  AGE S\no1     t\uFFFD    75\n" +
				"some of them cannot be read; the daemon's log says which\n"},
		{split("dead-letters list"), only(`{"letters":[]}`), 0, "GET /dead-letters", 0, "nothing is recorded\n"},
		{split("events --limit 1 --before 20"), shown, 0, "GET /events?before=20&limit=1", 0,
			"AT                    KIND   SUBJECT  TEXT\n2026-01-02T03:04:05Z  k\uFFFD[2J  a\uFFFDb      " + strings.Repeat("x", 300) + "…\n" +
				"there are more: add --before 17\n"},
		{split("events"), only("<html>"), 0, "GET /events", 1, "poold events: reading the daemon's answer: invalid…"},
		{split("healthcheck"), shown, 0, "GET /readyz", 0, ""},
		{split("history site a/b?c --limit 5 --from 2026-01-02"), only(orders), 0, "GET /history/site/a%2Fb%3Fc?from=2026-01-02&limit=5", 0,
			"ID  TARGET  CODE        PRICE\nO1  login   -           0.00299\nO2  /solve  ERROR_\uFFFD[2J  -\nthere are more: add --cursor CUR\n"},
		{split("history site k --csv"), only(csv), 0, "GET /history/site/k", 0, csv + "there are more: add --cursor CUR\n"},
		{split("history active --json"), only(orders + "\n"), 0, "GET /history/active", 0, orders + "\n"},
		{split("history active"), only(`{"records":[]}`), 0, "GET /history/active", 0, "nothing is recorded\n"},
		{split("history active"), only("<html>"), 0, "GET /history/active", 1, "poold history active: reading the daemon's answer: …"},
		{split("history orders --status error --owner qa"), only("{}"), 0, "GET /history/orders?owner=qa&status=error", 0, "nothing is recorded\n"},
		{split("history day"), only(`{"lines":[{"type":"a","solved":1},{"target":"b","solved":1}]}`), 0, "GET /history/day/" + today, 0,
			"TYPE  TARGET  SOLVED\na     -       1\n-     b       1\n"},
		{split("history usage --by owner"), only(`{"lines":[{"date":"","target":"","owner":"qa","orders":7}]}`), 0, "GET /history/usage?by=owner", 0,
			"DATE  TARGET  OWNER  ORDERS\n-     -       qa     7\n"},
		{split("history day 2026-01-02"), only("{}"), 0, "GET /history/day/2026-01-02", 0, "nothing is recorded\n"},
		{split("history order O1"), only(`{"id":"O1","owner":"qa","list":[{"a":null}]}`), 0, "GET /history/order/O1", 0, "id        O1\nlist.0.a  -\nowner     qa\n"},
		{split("history usage --by key --per day"), only(usage), 0, "GET /history/usage?by=key&per=day", 0,
			"DATE        KEY  HANDED OUT  SPENT\n2026-01-02  -    5           1.2346\n"},
		{split("history key a/b"), only(`{"code":"no_audit"}`), 404, "GET /history/key/a%2Fb", 1, "poold history key: no_audit; try again in 7\uFFFD s\n"},
		{split("version"), nil, 0, "", 0, "poold 1.2.3\n"},
		{split("--version"), nil, 0, "", 0, "poold 1.2.3\n"},
		// Mistakes on the command line.
		{split("tokn"), nil, 0, "", 2, "poold: unknown command \"tokn\" for \"poold\"\n\nDid you mean this?\n\ttoken\n"},
		{split("token"), nil, 0, "", 2, "poold token: accepts 1 arg(s), received 0\n"},
		{split("token a \x1b[2J"), nil, 0, "", 2, "poold token: accepts 1 arg(s), received 2\n"},
		{split("token a --\x1b[2J"), nil, 0, "", 2, "poold token: unknown flag: --\uFFFD[2J\n"},
		{split("report login id good"), nil, 0, "", 2, "poold report: the last word is accepted or rejected, not \"good\"\n"},
		{split("status ["), nil, 0, "", 2, "poold status: a GLOB has *, ? and [a-z], and \"[\" is none\n"},
		{split("history"), nil, 0, "", 2, "poold history: needs a command; `poold history --help` lists them\n"},
		{split("history money"), nil, 0, "", 2, "poold history: unknown command…"},
		{split("history orders"), nil, 0, "", 2, "poold history orders: required flag(s) \"status\" not set\n"},
		{split("history active --json --csv"), nil, 0, "", 2, "poold history active: if any flags in the group [json csv] are set…"},
		{split("healthcheck --url ftp://host"), nil, 0, "", 2, "poold healthcheck: --url must be like http://…"},
		{split("healthcheck --url http://user:password@host"), nil, 0, "", 2, "poold healthcheck: --url holds a user or a password…"},
		{split("healthcheck --url http://127.0.0.1:1"), nil, 0, "", 1, "poold healthcheck: asking the daemon: …"},
		{split("healthcheck --key-file \x1b/none"), nil, 0, "", 1, "poold healthcheck: reading the key: open \uFFFD/none…"},
	} {
		header := http.Header{"Content-Type": {"text/csv"}, "Link": {`<?cursor=CUR&limit=1>; rel="next"`}, "Retry-After": {"7\u009b"}}
		d := &daemon{answers: c.answers, status: c.status, header: header}
		code, stdout, stderr := d.run(t, c.args...)
		if asked := strings.Join(d.asked, ", "); code != c.code || asked != c.asked || !matches(stdout+stderr, c.printed) {
			t.Errorf("%q: exit %d, asked %s\n%swant\n%s", c.args, code, asked, stdout+stderr, c.printed)
		}
		words := strings.Join(c.args, " ")
		wanted := "application/json"
		switch {
		case strings.Contains(words, "--csv"):
			wanted = "text/csv"
		case c.args[0] == "token" && !strings.Contains(words, "--json"):
			wanted = "text/plain"
		}
		if accepted := d.sent.Get("Accept"); accepted != "" && accepted != wanted {
			t.Errorf("%q: Accept %s, want %s", c.args, accepted, wanted)
		}
		if stdout != "" {
			d := &daemon{answers: c.answers, header: header}
			var log strings.Builder
			if code := d.runTo(t, full{}, &log, nil, c.args...); code != cli.ExitFailed && c.args[0] != "--version" {
				t.Errorf("%q without a place to print: exit %d, %s", c.args, code, log.String())
			}
		}
	}
}

func split(words string) []string { return strings.Fields(words) }

// matches compares a text with a pattern; "…" at the end of the pattern stands for any text.
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
	dir := t.TempDir()
	for name, text := range map[string]string{"picture": "picture", "proxy": "user:canary@192.0.2.1:3128\n"} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const page = " --pageurl https://example.com/login"
	sum := sha256.Sum256([]byte("picture"))
	id := func(of captcha.Identity) targets.SolveRequest {
		if of.Type != captcha.Image {
			of.Pageurl = "https://example.com/login"
		}
		return targets.SolveRequest{Identity: of, Timeout: 2 * time.Minute, Dedup: targets.DedupRequest}
	}
	image := id(captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{
		SHA256: hex.EncodeToString(sum[:]), Charset: captcha.Digits, CaseSensitive: true, MinLength: 2, MaxLength: 9, Phrase: true, Math: true,
		Language: "en", Instructions: "left",
	}})
	image.Image = []byte("picture")
	shared := id(captcha.Identity{Type: captcha.Turnstile, Sitekey: "k", Data: "0"})
	shared.Dedup, shared.DedupProxy, shared.Timeout = targets.DedupIdentity, true, 90*time.Second
	v2 := id(captcha.Identity{
		Type: captcha.RecaptchaV2, Sitekey: "k", Invisible: true, Enterprise: true, DataS: "d", UserAgent: "u",
		Proxy: "user:canary@192.0.2.1:3128", ProxyType: "socks5",
	})
	for args, want := range map[string]targets.SolveRequest{
		"--type recaptcha_v2 --sitekey k --invisible --enterprise --data-s d --user-agent u --proxy-type socks5 --proxy-file " + dir + "/proxy" + page:               v2,
		"--type recaptcha_v3 --sitekey k --action a --min-score 0.7" + page:                                                                                          id(captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "k", Action: "a", MinScore: 0.7}),
		"--type turnstile --sitekey k --data 0 --dedup identity --dedup-proxy --timeout 1m30s" + page:                                                                shared,
		"--type hcaptcha --sitekey k --rqdata r" + page:                                                                                                              id(captcha.Identity{Type: captcha.HCaptcha, Sitekey: "k", RQData: "r"}),
		"--type geetest --gt g --challenge c --api-server api-na.geetest.com" + page:                                                                                 id(captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", APIServer: "api-na.geetest.com"}),
		"--type geetest_v4 --captcha-id i" + page:                                                                                                                    id(captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i"}),
		"--type image --charset digits --case-sensitive --min-length 2 --max-length 9 --phrase --math --language en --instructions left --image " + dir + "/picture": image,
	} {
		d := &daemon{answers: map[string]string{"POST /solve": "03AF"}}
		code, stdout, stderr := d.run(t, append([]string{"solve"}, split(args)...)...)
		body, _ := strings.CutPrefix(strings.Join(d.asked, ""), "POST /solve ")
		got, err := targets.ReadSolve([]byte(body))
		if code != 0 || stdout != "03AF\n" || stderr != "" || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: exit %d, %s%s%v\nasked for %+v\nwant %+v", args, code, stdout, stderr, err, got, want)
		}
	}
	for args, want := range map[string]struct {
		code   int
		stderr string
	}{
		"--type x":                             {3, "poold solve: solve_timeout…"},
		"":                                     {2, "poold solve: required flag(s) \"type\" not set\n"},
		"--type x --min-score NaN":             {2, "poold solve: a flag needs a finite number, or true or false\n"},
		"--type x --proxy-file /none":          {1, "poold solve: reading the proxy: open /none…"},
		"--type x --image /none":               {1, "poold solve: reading the picture: open /none…"},
		"--type x --proxy user:canary@host:80": {2, "poold solve: unknown flag: --proxy\n"},
	} {
		d := &daemon{answers: map[string]string{"": `{"code":"solve_timeout"}`}, status: 504}
		if code, stdout, stderr := d.run(t, append([]string{"solve"}, split(args)...)...); code != want.code || stdout != "" || !matches(stderr, want.stderr) {
			t.Errorf("%s: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
	d := &daemon{answers: map[string]string{"POST /solve": "03AF"}}
	env := map[string]string{"POOLD_PROXY": "env:canary@192.0.2.2:2"}
	d.runTo(t, io.Discard, io.Discard, env, "solve", "--type", "hcaptcha", "--idempotency-key", "again")
	if want := `POST /solve {"proxy":"env:canary@192.0.2.2:2","type":"hcaptcha"}`; d.asked[0] != want || d.sent.Get("Idempotency-Key") != "again" || d.sent.Get("Authorization") != "Bearer key1" {
		t.Errorf("%s %v", d.asked, d.sent)
	}
}

// The scripts of the shells complete commands.
func TestCompletion(t *testing.T) {
	d := new(daemon)
	if _, stdout, _ := d.run(t, "__complete", "history", "us"); !strings.HasPrefix(stdout, "usage\tshow") {
		t.Errorf("%q", stdout)
	}
	for shell, part := range map[string]string{"bash": "__start_poold", "zsh": "#compdef poold", "fish": "complete -c poold"} {
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
	testkit.Within(t, 30*time.Second, "the third status", func() bool { return strings.Contains(printed.String(), "as of 3\n") })
	stop()
	if code := <-ended; code != 0 || log.String() != "not live: the daemon answered 502 Bad Gateway\n" || !strings.HasPrefix(printed.String(), "as of 1\n") {
		t.Errorf("exit %d, %s\n%s", code, log.String(), printed.String())
	}
	d := &daemon{status: 401}
	if code, _, stderr := d.run(t, "status", "--watch"); code != 1 || stderr != "poold status: the daemon answered 401 Unauthorized\n" {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// No control character of a daemon reaches a terminal. A device file is taken for a terminal.
func TestTerminal(t *testing.T) {
	if got := cli.PrintableLines("token\x1b[2J\u009b\xff\n\tend"); got != "token\uFFFD[2J\uFFFD\uFFFD\n\tend" {
		t.Errorf("%q", got)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	testkit.NoError(t, err)
	defer func() { _ = null.Close() }()
	if cli.TerminalOf(null) != null || cli.TerminalOf(io.Discard) != nil {
		t.Error("a device is no terminal, or a writer is one")
	}
	if text := cli.Printable("漢\n" + strings.Repeat("x", 5000)); len([]rune(text)) != 301 || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("%q", text)
	}
}

// The log has durations as text, and omits unknown times.
func TestLogIsReadable(t *testing.T) {
	var text strings.Builder
	logger := cli.LogFlags(&cobra.Command{}, &cli.Console{Stderr: &text})
	log, err := logger()
	testkit.NoError(t, err)
	log.Debug("not shown")
	log.Info("tasks", "until", time.Time{}, "retry_at", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "took", 90*time.Second)
	if !strings.HasSuffix(text.String(), "msg=tasks retry_at=2026-01-02T03:04:05.000Z took=1m30s\n") || strings.Count(text.String(), "\n") != 1 {
		t.Error(text.String())
	}
}

// Small amounts have more digits.
func TestAmountHasTwoSignificantDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 4.1: "4.10", 0.0996: "0.100", 0.0299: "0.030", 0.000001: "0.0000010"} {
		if got := cli.Amount(x); got != want {
			t.Errorf("%g: %s, want %s", x, got, want)
		}
	}
}
