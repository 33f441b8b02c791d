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
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// someRecords is a response with a solved order and a failed order. The code of the failure is a
// text from the provider.
const someRecords = "id,target,owner,type,sitekey,pageurl,provider,task,status,how,code,placed_at,submitted_at,solved_at,ended_at,elapsed_ms,polls,by,price,choice\r\n" +
	"O1.0123,login,qa,turnstile,k,https://example.com/,service,t1,solved,solved,,2026-01-02T03:04:05.000Z,,,2026-01-02T03:04:23.350Z,18250,3,poll,0.00299,explore\r\n" +
	"O2.0123,/solve,,image,,,service,,error,refused,ERROR_\x1b[2J,,,,2026-01-02T03:04:06.000Z,0,0,,,\r\n"

func TestHistoryCommand(t *testing.T) {
	const none = "id,target\r\n"
	const active = "id,target,owner,status,state,elapsed_ms\r\nO1.0123,login,qa,polling,bought,1234\r\n"
	const usage = "date,target,owner,orders,spent,handed_out\r\n,,qa\x1b,7,0.25,\r\n"
	const keyUsage = "date,key,handed_out\r\n2026-01-02,'-,5\r\n2026-01-02,a'b,6\r\n"
	const entries = "id,at,key,action,image\r\nO2,2026-01-02T03:04:05.000Z,nightly,bought,\"sha256:ab, 25 bytes\"\r\n"
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
			"ID       TARGET  TYPE       PROVIDER  TASK  HOW      CODE           PLACED AT                 ENDED AT                  ELAPSED MS  POLLS  BY    PRICE\n",
			"O1.0123  login   turnstile  service   t1    solved   -              2026-01-02T03:04:05.000Z  2026-01-02T03:04:23.350Z  18250       3      poll  0.00299\n",
			"O2.0123  /solve  image      service   -     refused  ERROR_\\x1b[2J  -                         2026-01-02T03:04:06.000Z  0           0      -     -\n",
			"there are more: add --cursor CUR\n",
		}, "\x1b"},
		{"site a/b?c%#é --limit 5 --from 2026-01-02 --to 2026-01-02T15:04:05+02:00 --cursor CUR", 200, none, 0,
			"/history/site/a%2Fb%3Fc%25%23%C3%A9?cursor=CUR&from=2026-01-02&limit=5&to=2026-01-02T15%3A04%3A05%2B02%3A00", []string{"nothing is recorded\n"}, "ID"},
		{"site -- -k", 200, none, 0, "/history/site/-k", []string{"nothing is recorded\n"}, "more"},
		{"--json site 6Le", 200, `{"records":[]}`, 0, "/history/site/6Le", []string{`{"records":[]}`}, "ID"},
		{"tasks --status error --target login", 200, someRecords, 0, "/history/tasks?status=error&target=login", []string{"ENDED AT", "add --cursor CUR"}, ""},
		{"active", 200, active, 0, "/history/active", []string{
			"ID       TARGET  STATE   ELAPSED MS\n",
			"O1.0123  login   bought  1234\n",
		}, "more"},
		{"day 2026-01-02", 200, none, 0, "/history/day/2026-01-02", []string{"nothing is recorded\n"}, ""},
		{"day", 200, none, 0, "/history/day/" + today, []string{"nothing is recorded\n"}, ""},
		{"solve O1.0123", 200, strings.Split(someRecords, "O2")[0], 0, "/history/solve/O1.0123", []string{
			"id            O1.0123\n", "sitekey       k\n", "choice        explore\n", "code          -\n", "price         0.00299\n",
		}, ""},
		{"usage --by owner --since 7d --per-day", 200, usage, 0, "/history/usage?by=owner&from=" + weekAgo + "&per=day", []string{
			"DATE  TARGET  OWNER   ORDERS  SPENT  HANDED OUT\n",
			"-     -       qa\\x1b  7       0.25   -\n",
		}, "\x1b"},
		{"usage --by target --since 1d --to 2026-01-03 --per-day=false", 200, none, 0, "/history/usage?by=target&from=" + today + "&to=2026-01-03", nil, ""},
		{"usage --by keys", 400, `{"code":"bad_request","detail":"by must be owner, target or key"}`, 1, "/history/usage?by=keys", []string{"bad_request: by must be owner, target or key"}, ""},
		// The apostrophe before the name "-" protects spreadsheets from formulas.
		{"usage --by key --per-day", 200, keyUsage, 0, "/history/usage?by=key&per=day", []string{"2026-01-02  -    5\n", "2026-01-02  a'b  6\n"}, ""},
		{"key nightly --limit 2 --from 2026-01-01", 200, entries, 0, "/history/key/nightly?from=2026-01-01&limit=2", []string{"bought  sha256:ab, 25 bytes\n", "there are more: add --cursor CUR\n"}, ""},
		{"key a/b?c", 400, `{"code":"bad_request","detail":"a key's name is"}`, 1, "/history/key/a%2Fb%3Fc", []string{"bad_request: a key's name is"}, ""},
		{"key -", 200, none, 0, "/history/key/-", nil, ""},
		{"key nightly", 404, `{"code":"no_audit","detail":"no audit is kept"}`, 1, "/history/key/nightly", []string{"no_audit: no audit is kept"}, ""},
		{"key", 200, "", 2, "", []string{"poold history key: needs the name of a key\n"}, ""},
		{"key nightly --per-day", 200, "", 2, "", []string{"key has no --per-day"}, ""},
		{"active", 503, `{"code":"store_down","detail":"redis does not answer"}`, 1, "/history/active", []string{"store_down: redis does not answer"}, ""},
		{"site k --limit x", 400, `{"code":"bad_request","detail":"limit must be"}`, 1, "/history/site/k?limit=x", []string{"bad_request: limit must be"}, ""},
		{"active", 200, "<html>", 1, "/history/active", []string{"reading the daemon's answer: it is no CSV"}, ""},
		{"active", 200, "id,target\r\nO1\r\n", 1, "/history/active", []string{"reading the daemon's answer: record on line 2"}, ""},
		{"active", 200, "", 1, "/history/active", []string{"reading the daemon's answer: it is no CSV"}, ""},
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
			accept := "text/csv"
			if strings.Contains(c.args, "--json") {
				accept = "application/json"
			}
			if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer key1" || r.Header.Get("Accept") != accept {
				t.Errorf("%s: %s with %v", c.args, r.Method, r.Header)
			}
			if c.answer != "<html>" {
				w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
			}
			if strings.Contains(c.answer, "\nO2") {
				w.Header().Set("Link", `<?cursor=CUR&limit=1>; rel="next"`)
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
		t.Errorf("reading bought something: %+v", simulatedtest.Totals(totals))
	}
}
