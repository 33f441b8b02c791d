package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/httpapi/historyapi"
	"poold/internal/provider/simulated"
	"poold/internal/testkit"
)

// someRecords is a response with a solved order and a failed order. The code of the failure is a
// text from the provider.
const someRecords = `{"records":[
 {"id":"O1.0123","target":"login","owner":"qa","type":"turnstile","sitekey":"k","pageurl":"https://example.com/","provider":"service","task":"t1","status":"solved","how":"solved","code":"",
  "placed_at":"2026-01-02T03:04:05.000Z","submitted_at":"2026-01-02T03:04:05.100Z","solved_at":"2026-01-02T03:04:20.000Z","ended_at":"2026-01-02T03:04:23.350Z","elapsed_ms":18250,"polls":3,"by":"poll","price":0.00299,"choice":"explore"},
 {"id":"O2.0123","target":"/solve","type":"image","provider":"service","task":"","status":"error","how":"refused","code":"ERROR_\u001b[2J","ended_at":"2026-01-02T03:04:06.000Z"}],
 "next":"CUR"}`

func TestHistoryCommand(t *testing.T) {
	const active = `{"records":[{"id":"O1.0123","target":"login","type":"turnstile","status":"polling","state":"bought","placed_at":"2026-01-02T03:04:05.000Z","elapsed_ms":1234,"provider":"service","task":"t1","price":0}]}`
	const day = `{"date":"2026-01-02","types":[{"type":"turnstile","orders":7,"solved":3,"discarded":1,"failed":1,"refused":1,"lost":1,"total_elapsed_ms":73000,"spent":0.25}],
 "targets":[{"target":"login","owner":"qa@example.com","orders":1,"refused":1}]}`
	const usage = `{"by":"owner","first":"2026-01-01","last":"2026-01-02","lines":[{"date":"2026-01-02","target":"","owner":"qa\u001b","orders":7,"solved":3,"discarded":1,"failed":1,"refused":1,"lost":1,"total_elapsed_ms":73000,"spent":0.25,"handed_out":5,"expired":null}]}`
	const keyUsage = `{"by":"key","first":"2026-01-01","last":"2026-01-02","lines":[{"date":"2026-01-02","key":"nightly","handed_out":5,"accepted":3,"rejected":2,"bought":1,"spent":0.25},{"key":"ci\u001b","rejected":1}]}`
	const entries = `{"entries":[{"id":"A","at":"2026-01-02T03:04:06.000Z","key":"nightly","action":"accepted","target":"login","token_id":"O1.sig"},
 {"id":"B","at":"2026-01-02T03:04:05.000Z","key":"nightly","action":"bought","target":"/solve","token_id":"O2.sig.0.image","source":"solve","image":"sha256:ab, 25 bytes\u001b","price":0.00299}],"next":"CUR"}`
	today := time.Now().UTC().Format(time.DateOnly)
	weekAgo := time.Now().UTC().AddDate(0, 0, -6).Format(time.DateOnly)
	for _, c := range []struct {
		args    string
		status  int
		answer  string
		code    int
		sent    string // path and query
		printed []string
		never   string
	}{
		{"site 6Le", 200, someRecords, 0, "/history/site/6Le", []string{
			"ENDED                     TARGET  TYPE       HOW      CODE           SECONDS  POLLS  BY    PROVIDER  TASK  PRICE    ORDER\n",
			"2026-01-02T03:04:23.350Z  login   turnstile  solved   -              18.2     3      poll  service   t1    0.00299  O1.0123\n",
			"2026-01-02T03:04:06.000Z  /solve  image      refused  ERROR_\\x1b[2J  0.0      0      -     service   -     -        O2.0123\n",
			"there are more: add --cursor CUR\n",
		}, "\x1b"},
		{"site a/b?c%#é --limit 5 --from 2026-01-02 --to 2026-01-02T15:04:05+02:00 --cursor CUR", 200, `{"records":[]}`, 0,
			"/history/site/a%2Fb%3Fc%25%23%C3%A9?cursor=CUR&from=2026-01-02&limit=5&to=2026-01-02T15%3A04%3A05%2B02%3A00", []string{"there are no records\n"}, "ENDED"},
		{"site -- -k", 200, `{"records":[]}`, 0, "/history/site/-k", []string{"there are no records\n"}, ""},
		{"--json site 6Le", 200, someRecords, 0, "/history/site/6Le", []string{someRecords}, "ENDED"},
		{"tasks --status error", 200, someRecords, 0, "/history/tasks?status=error", []string{"ENDED", "add --cursor CUR"}, ""},
		{"tasks --status error --target login", 200, someRecords, 0, "/history/tasks?status=error&target=login", []string{"ENDED"}, ""},
		{"tasks --status polling", 200, active, 0, "/history/tasks?status=polling", []string{"STATE"}, "HOW"},
		{"tasks --status polling", 200, `{"records":[]}`, 0, "/history/tasks?status=polling", []string{"there are no records\n"}, ""},
		{"active", 200, active, 0, "/history/active", []string{
			"PLACED                    TARGET  TYPE       STATE   SECONDS  PROVIDER  TASK  PRICE  ORDER\n",
			"2026-01-02T03:04:05.000Z  login   turnstile  bought  1.2      service   t1    -      O1.0123\n",
		}, "more"},
		{"active", 200, `{"records":[]}`, 0, "/history/active", []string{"no orders are in flight\n"}, ""},
		{"day 2026-01-02", 200, day, 0, "/history/day/2026-01-02", []string{
			"TARGET  OWNER           ORDERS  SOLVED  DISCARDED  FAILED  REFUSED  LOST  MEAN SECONDS  SPENT\n",
			"login   qa@example.com  1       0       0          0       1        0     -             -\n\n",
			"TYPE       OWNER  ORDERS  SOLVED",
			"turnstile  -      7       3       1          1       1        1     18.2          0.25\n",
		}, ""},
		{"day", 200, `{"date":"2026-01-03","types":null,"targets":[]}`, 0, "/history/day/" + today, []string{"no known order ended on 2026-01-03 (UTC)\n"}, "TARGET"},
		{"solve O1.0123", 200, strings.TrimSuffix(strings.SplitN(someRecords, "[\n ", 2)[1], ",\n {"+strings.SplitN(someRecords, ",\n {", 2)[1]), 0, "/history/solve/O1.0123", []string{
			"order      O1.0123\n", "sitekey    k\n", "choice     explore\n", "code       -\n", "ended      2026-01-02T03:04:23.350Z\n", "seconds    18.2\n", "price      0.00299\n",
		}, ""},
		{"usage --by owner --since 7d --per-day", 200, usage, 0, "/history/usage?by=owner&from=" + weekAgo + "&per=day", []string{
			"DATE        TARGET  OWNER   ORDERS  SOLVED  DISCARDED  FAILED  REFUSED  LOST  MEAN SECONDS  SPENT  HANDED OUT  EXPIRED\n",
			"2026-01-02  -       qa\\x1b  7       3       1          1       1        1     18.2          0.25   5           -\n",
		}, "\x1b"},
		{"usage --by target --since 1d --to 2026-01-03 --per-day=false", 200, `{"first":"2026-01-01","last":"2026-01-02","lines":[]}`, 0, "/history/usage?by=target&from=" + today + "&to=2026-01-03", []string{
			"no known order ended from 2026-01-01 to 2026-01-02 (UTC)\n"}, "TARGET"},
		{"usage --by keys", 400, `{"code":"bad_request","detail":"by must be owner, target or key"}`, 1, "/history/usage?by=keys", []string{"bad_request: by must be owner, target or key"}, ""},
		{"usage --by key --per-day", 200, keyUsage, 0, "/history/usage?by=key&per=day", []string{
			"DATE        KEY      HANDED OUT  ACCEPTED  REJECTED  BOUGHT  SPENT\n",
			"2026-01-02  nightly  5           3         2         1       0.25\n",
			"-           ci\\x1b   0           0         1         0       -\n",
		}, "\x1b"},
		{"usage --by key", 200, `{"by":"key","first":"2026-01-01","last":"2026-01-02","lines":[]}`, 0, "/history/usage?by=key", []string{
			"no key took or reported a token from 2026-01-01 to 2026-01-02 (UTC)\n"}, "DATE"},
		{"usage --by key", 200, `[]`, 1, "/history/usage?by=key", []string{"reading the daemon's answer"}, ""},
		{"key nightly --limit 2 --from 2026-01-01", 200, entries, 0, "/history/key/nightly?from=2026-01-01&limit=2", []string{
			"AT                        ACTION    TARGET  SOURCE  PRICE    TOKEN           IMAGE\n",
			"2026-01-02T03:04:06.000Z  accepted  login   -       -        O1.sig          -\n",
			"2026-01-02T03:04:05.000Z  bought    /solve  solve   0.00299  O2.sig.0.image  sha256:ab, 25 bytes\\x1b\n",
			"there are more: add --cursor CUR\n",
		}, "\x1b"},
		{"key a/b?c", 400, `{"code":"bad_request","detail":"a key's name is"}`, 1, "/history/key/a%2Fb%3Fc", []string{"bad_request: a key's name is"}, ""},
		{"key -", 200, `{"entries":[]}`, 0, "/history/key/-", []string{"there are no entries of this key\n"}, "AT"},
		{"key --json nightly", 200, entries, 0, "/history/key/nightly", []string{entries}, "ACTION"},
		{"key nightly", 404, `{"code":"no_audit","detail":"no audit is kept"}`, 1, "/history/key/nightly", []string{"no_audit: no audit is kept"}, ""},
		{"key", 200, "", 2, "", []string{"poold history key: needs the name of a key\n"}, ""},
		{"key nightly --per-day", 200, "", 2, "", []string{"key has no --per-day"}, ""},
		{"usage --json --by owner --from 2026-01-01", 200, usage, 0, "/history/usage?by=owner&from=2026-01-01", []string{usage}, "ORDERS"},
		{"active", 503, `{"code":"store_down","detail":"redis does not answer"}`, 1, "/history/active", []string{"store_down: redis does not answer"}, ""},
		{"site k --limit x", 400, `{"code":"bad_request","detail":"limit must be"}`, 1, "/history/site/k?limit=x", []string{"bad_request: limit must be"}, ""},
		{"active", 200, `<html>`, 1, "/history/active", []string{"reading the daemon's answer"}, ""},
		{"tasks --status error", 200, `<html>`, 1, "/history/tasks?status=error", []string{"reading the daemon's answer"}, ""},
		{"", 200, "", 2, "", []string{"tasks, usage; `poold history --help` explains them\n"}, ""},
		{"money", 200, "", 2, "", []string{"needs one of the words active, day"}, ""},
		{"usage", 200, "", 2, "", []string{"poold history usage: needs --by owner, target or key\n"}, ""},
		{"usage --by owner --since 7d --from 2026-01-01", 200, "", 2, "", []string{"--since or --from, not both"}, ""},
		{"usage --by owner --since 7", 200, "", 2, "", []string{"--since: must be days, such as 7d"}, ""},
		{"usage --by owner --since 0d", 200, "", 2, "", []string{"--since: must be days, such as 7d"}, ""},
		{"usage --by owner --since 36h", 200, "", 2, "", []string{"--since: must be days, such as 7d"}, ""},
		{"usage --by owner --per-day=x", 200, "", 2, "", []string{"--per-day"}, ""},
		{"usage --by owner --limit 5", 200, "", 2, "", []string{"usage has no --limit"}, ""},
		{"active --since 7d", 200, "", 2, "", []string{"active has no --since"}, ""},
		{"active --per-day", 200, "", 2, "", []string{"active has no --per-day"}, ""},
		{"usage now --by owner", 200, "", 2, "", []string{`unexpected argument "now"`}, ""},
		{"site", 200, "", 2, "", []string{"poold history site: needs a site key\n"}, ""},
		{"solve", 200, "", 2, "", []string{"poold history solve: needs the id of an order or of its task\n"}, ""},
		{"active now", 200, "", 2, "", []string{`unexpected argument "now"`}, ""},
		{"site a b", 200, "", 2, "", []string{`unexpected argument "b"`}, ""},
		{"tasks", 200, "", 2, "", []string{"poold history tasks: needs --status solved, error or polling\n"}, ""},
		{"active --status polling", 200, "", 2, "", []string{"active has no --status"}, ""},
		{"day --from 2026-01-02", 200, "", 2, "", []string{"day has no --from"}, ""},
		{"active --json --csv", 200, "", 2, "", []string{"--json or --csv"}, ""},
		{"site --help", 200, "", 0, "", []string{"usage: poold history site SITEKEY [flags]\n", "--csv", "--cursor"}, ""},
		{"--help", 200, "", 0, "", []string{"usage: poold history COMMAND\n", "  site    "}, ""},
	} {
		var sent string
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent = r.RequestURI
			if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer key1" || r.Header.Get("Accept") != "application/json" {
				t.Errorf("%s: %s with %v", c.args, r.Method, r.Header)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		}))
		code, stdout, stderr := runCommand(t, map[string]string{"POOLD_URL": daemon.URL, "POOLD_KEY": "key1"}, append([]string{"history"}, strings.Fields(c.args)...)...)
		daemon.Close()
		printed := stdout + stderr
		if code != c.code || sent != c.sent {
			t.Errorf("%s: exit %d, asked for %q\n%s", c.args, code, sent, printed)
		}
		for _, part := range c.printed {
			if !strings.Contains(printed, part) {
				t.Errorf("%s: no %q in\n%s", c.args, part, printed)
			}
		}
		if c.never != "" && strings.Contains(printed, c.never) {
			t.Errorf("%s: %q in\n%s", c.args, c.never, printed)
		}
	}
}

// The command prints the CSV unchanged. stderr reports that more pages follow.
func TestHistoryCommandAsCSV(t *testing.T) {
	link := `<?cursor=CUR&limit=1>; rel="next"`
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/csv" {
			t.Errorf("Accept %q", r.Header.Get("Accept"))
		}
		if link != "" {
			w.Header().Set("Link", link)
		}
		_, _ = io.WriteString(w, "id,target\r\nO1,login\r\n")
	}))
	defer daemon.Close()
	env := map[string]string{"POOLD_URL": daemon.URL}
	for _, want := range []string{"there are more: add --cursor CUR\n", ""} {
		code, stdout, stderr := runCommand(t, env, "history", "site", "k", "--csv", "--limit", "1")
		if code != 0 || stdout != "id,target\r\nO1,login\r\n" || stderr != want {
			t.Errorf("exit %d, %q, %q", code, stdout, stderr)
		}
		link = ""
	}
}

// Every replica lists the orders in flight, including the orders of a dead replica. It does so even
// if no history is kept.
func TestHistoryOfARunningDaemon(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Median, o.Min, o.Max = time.Minute, time.Minute, time.Minute
	w := newWorld(t, o, terms{depth: 5, timeout: "5m", provider: ", price_per_1000: 2.5", top: "history: {backend: none}"})
	one := w.start(t)
	two := w.start(t)
	listed := func(p *process, args ...string) (list historyapi.ActiveList, text string) {
		t.Helper()
		code, stdout, stderr := runCommand(t, map[string]string{"POOLD_URL": p.url}, append([]string{"history"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, stderr)
		}
		_ = json.Unmarshal([]byte(stdout), &list)
		return list, stdout
	}
	sold := func() (tasks []string) {
		for _, sale := range ledger(t, w.provider).Sales {
			tasks = append(tasks, sale.Task)
		}
		slices.Sort(tasks)
		return tasks
	}
	same := func(p *process) bool {
		list, _ := listed(p, "active", "--json")
		var tasks []string
		for i, r := range list.Records {
			if r.Task != "" {
				tasks = append(tasks, r.Task)
			}
			if r.Target != "login" || r.Owner != "qa@example.com" || r.Type != "turnstile" || r.Sitekey != "1x00000000000000000000AA" || r.Pageurl != "https://example.com/" ||
				r.Provider != "service" || r.Status != "polling" || r.Price != 0.0025 || r.ElapsedMS < 0 || r.ElapsedMS > 60_000 || i > 0 && list.Records[i-1].PlacedAt < r.PlacedAt {
				t.Errorf("record %d: %+v", i, r)
			}
		}
		slices.Sort(tasks)
		return len(tasks) == 5 && slices.Equal(tasks, sold())
	}
	testkit.Within(t, 20*time.Second, "each replica to list the five tasks", func() bool { return same(one) && same(two) })
	one.signal(syscall.SIGKILL)
	one.waitForDeath(5 * time.Second)
	if !same(two) {
		list, _ := listed(two, "active", "--json")
		t.Errorf("after the death of a replica: %+v, sold %q", list, sold())
	}
	_, text := listed(two, "tasks", "--status", "polling", "--csv", "--limit", "2")
	if rows, err := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil || len(rows) != 3 || rows[0][0] != "id" || rows[1][9] != "bought" {
		t.Errorf("%v: %q", err, text)
	}
	if _, text := listed(two, "active"); strings.Count(text, "bought") != 5 {
		t.Errorf("the table: %s", text)
	}
	for _, args := range [][]string{{"site", "1x00000000000000000000AA"}, {"day"}, {"tasks", "--status", "solved"}, {"solve", "x"}} {
		code, _, stderr := runCommand(t, map[string]string{"POOLD_URL": two.url}, append([]string{"history"}, args...)...)
		if code != 1 || !strings.Contains(stderr, "no_history: no history is kept") {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
	if totals := ledger(t, w.provider).Totals; totals.Submitted != 5 {
		t.Errorf("reading bought something: %+v", simulated.Totals(totals))
	}
}
