package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"

	"poold/internal/status"
)

const someStatus = `{"version":"1.2.3","ready":true,"as_of":"2026-01-02T03:04:05Z","config":{"ok":true},"redis":{"mode":"single","ok":true},
 "budget":{"used":12,"limit":20000},"dead_letters":3,
 "providers":[{"name":"service","state":"ok","in_flight":2,"concurrency":9,"callbacks":true,"balance":7.25},{"name":"other","state":"down","reason":"no money","since":"2026-01-02T03:00:00Z","retry_at":"2026-01-02T03:04:10Z","remedy":"top it up"}],
 "targets":[{"name":"checkout","state":"ok","depth":3,"want":2,"refill":"fixed","marks":[],"hour":{"hits":3,"misses":1,"requests":4,"hit_rate":0.75},
   "lead_time_s":{"p50":18.25,"p90":31},"days":[{"date":"2026-01-02","spent":0.25},{"date":"2026-01-01","spent":7}],"budget":{"hour":null,"day":{"used":1,"limit":2}}},
  {"name":"login","state":"starved","reason":"why","depth":5,"want":7,"warm":6,"refill":"adaptive","rail":"credit",
   "marks":["failing","mostly_rejected"],"unknown":4,"bought":115,"lost":6,"spent":0.105123,"days":[{"date":"2026-01-01","spent":7}],"budget":{"hour":{"used":8,"limit":10},"day":{"used":77,"limit":500}}},
  {"name":"signup","state":"ok","want":4,"warm":4,"fresh":1,"marks":[],"budget":null}],
 "solve":{"guests":7,"fresh":2,"in_flight":5,"waiting":3,"requests":90,"bought":96,"solved":84,"failed":7,"spent":0.25,
   "budget":{"hour":null,"day":{"used":33,"limit":300}},"reason":"redis does not answer; the figures are the last known ones"},
 "dedup":{"requests":65,"shared":19,"saved":20,"missed":3,"refused":2,"saved_pct":33.3,"reason":""}}`

// `poold status` shows problems first, and then the amount spent.
func TestStatusTable(t *testing.T) {
	const want = `PROVIDER  STATE  ORDERS  LIMIT  BALANCE  CALLBACKS
service   ok     2       9      7.25     yes
other     down   0       0      -        no
other: no money; since 2026-01-02T03:00:00Z; next try at 2026-01-02T03:04:10Z; top it up

TARGET    STATE    FRESH  WANT        ORDERS  WAITING  HITS    REQUESTS  LEAD    SPENT
login     starved  0      7 (warm 6)  0       0        -       0         -       -
checkout  ok       0      2           0       0        75.0 %  4         18.2 s  0.25
signup    ok       1      4 (warm)    0       0        -       0         -       -

login: why
login: marked failing, mostly_rejected
login: held by credit

poold 1.2.3, ready; redis (single) answers
overall budget: 12/20000 a day
on-demand solves: guests 7, fresh 2, orders 5, waiting 3, requests 90, bought 96, solved 84, failed
  7, spent 0.25; budget 33/300 a day
on-demand solves: redis does not answer; the figures are the last known ones
savings: 20 of 60 tokens in the last 7 days served another request too (33.3 %); 3 requests missed,
  2 were refused
dead letters: 3 (poold dead-letters list)
`
	printed, code, sent := askDaemon(t, 200, someStatus, "status")
	if code != exitDone || sent != "GET /status.json Bearer key1" || printed != want {
		t.Errorf("exit %d, asked %s\n%s", code, sent, printed)
	}
	printed, _, _ = askDaemon(t, 200, `{"alarms":["Nothing is bought: provider service is down: no money"],"ready":true,"targets":[]}`, "status")
	if !strings.HasPrefix(printed, "Nothing is bought: provider service is down: no money\n\nPROVIDER") {
		t.Errorf("the alarm does not stand first:\n%s", printed)
	}
	printed, _, _ = askDaemon(t, 200, `{"alarms":["Nothing is bought: no money"],"config":{"ok":false,"loaded_at":"2026-01-02T03:04:05Z","problems":["pools.yaml:4: depth"]},"targets":[]}`, "status")
	if want := "The configuration file was not applied; the last good one, of 2026-01-02T03:04:05Z, is in use:\n\npools.yaml:4: depth\n\nNothing is bought: no money\n\nPROVIDER"; !strings.HasPrefix(printed, want) || strings.Count(printed, "pools.yaml:4") != 1 {
		t.Errorf("a refused file does not come first:\n%s", printed)
	}
	printed, _, _ = askDaemon(t, 200, `{"solve":{"budget":{"day":{"used":0,"limit":9}}},"dedup":{"days":[]},"targets":[{"name":"signup","state":"ok","budget":null}]}`, "status")
	if strings.Contains(printed, "on-demand") || strings.Contains(printed, "savings") || strings.Contains(printed, "budget") || strings.Contains(printed, "dead letters") {
		t.Errorf("shows what is not there:\n%s", printed)
	}
}

// A glob and a state select targets. If they select a single target, all its figures are shown.
func TestStatusOfSome(t *testing.T) {
	for _, c := range []struct {
		args  string
		names []string
		all   bool // show all figures
	}{
		{"", []string{"login", "checkout", "signup"}, false},
		{"*", []string{"login", "checkout", "signup"}, false},
		{"*[nt]", []string{"login", "checkout"}, false},
		{"login", []string{"login"}, true},
		{"--state ok", []string{"checkout", "signup"}, false},
		{"--state starved", []string{"login"}, false},
		{"--state ok s*", []string{"signup"}, true},
		{"none", []string{}, false},
	} {
		args := append([]string{"status"}, strings.Fields(c.args)...)
		printed, code, _ := askDaemon(t, 200, someStatus, args...)
		names := []string{}
		_, rows, _ := strings.Cut(printed, "\nTARGET")
		for _, line := range strings.Split(strings.SplitN(rows, "\n\n", 2)[0], "\n")[1:] {
			names = append(names, strings.Fields(line)[0])
		}
		if code != exitDone || !slices.Equal(names, c.names) || strings.Contains(printed, "\nsitekey ") != c.all || strings.Contains(printed, "no target matches") != (len(c.names) == 0) {
			t.Errorf("%s: exit %d\n%s", c.args, code, printed)
		}
		printed, _, _ = askDaemon(t, 200, someStatus, append(args, "--json")...)
		var document status.Document
		if err := json.Unmarshal([]byte(printed), &document); err != nil || document.Version != "1.2.3" || len(document.Targets) != len(c.names) {
			t.Errorf("%s: %v: %s", c.args, err, printed)
		}
	}
	printed, _, _ := askDaemon(t, 200, someStatus, "status", "login")
	for _, part := range []string{"\nlogin  ", "\nbudget       8/10 an hour, 77/500 a day\n", "\nbought       115, solved 0", "lost 6\n", "0.105123 in all", "outcome unknown 4", "refill       adaptive, depth 5, wanted 7\n"} {
		if !strings.Contains(printed, part) {
			t.Errorf("no %q in\n%s", part, printed)
		}
	}
	if printed, _, _ := askDaemon(t, 200, someStatus+"\n", "status", "--json"); printed != someStatus+"\n" {
		t.Errorf("the document is not as it came: %s", printed)
	}
	if printed, code, _ := askDaemon(t, 200, "<html>", "status"); code != exitFailed || !strings.Contains(printed, "poold status: reading the daemon's answer: ") {
		t.Errorf("exit %d: %s", code, printed)
	}
}

// Each text from a daemon is written to stderr as one line, without control sequences.
func TestHostileErrors(t *testing.T) {
	answer, err := json.Marshal(map[string]any{"code": "bad\x1b[2J", "detail": strings.Repeat("漢", 10_000), "problems": []string{"a\nb\u009b"}})
	if err != nil {
		t.Fatal(err)
	}
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7\u009b")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(answer)
	}))
	defer daemon.Close()
	if _, _, stderr := runCommand(t, nil, "healthcheck", "--key-file", "\x1b[2J"); !strings.HasPrefix(stderr, "poold healthcheck: reading the key: open \uFFFD[2J: ") {
		t.Errorf("%q", stderr)
	}
	for _, args := range []string{"token login", "status", "status --watch", "pause login", "flush login", "reload", "report id accepted", "history active", "dead-letters list", "healthcheck", "check --diff --config ../../pools.yaml"} {
		code, stdout, stderr := runCommand(t, map[string]string{"POOLD_URL": daemon.URL}, strings.Fields(args)...)
		if strings.HasPrefix(args, "check") {
			stdout = ""
		}
		if code != exitFailed || stdout != "" || len(stderr) > 2000 || !strings.Contains(stderr, "bad\uFFFD[2J: 漢") ||
			strings.ContainsFunc(stderr, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: exit %d, %s, %.300q", args, code, stdout, stderr)
		}
	}
}
