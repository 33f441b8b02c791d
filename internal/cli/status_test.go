package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"poold/internal/status"
)

const someStatus = `{"version":"1.2.3","ready":true,"as_of":"2026-01-02T03:04:05Z","currency":"USD","config":{"ok":true},"redis":{"mode":"single","ok":true},
 "alarms":["Nothing is bought: no money"],"budget":{"used":12,"limit":20000},"dead_letters":3,
 "providers":[{"name":"service","state":"ok","in_flight":2,"concurrency":9,"callbacks":true,"balance":7.25,
   "types":[{"type":"turnstile","share":0.9,"solved":0.95,"accepted":null,"lead_p50_s":12.5,"cost":0.003}]},
  {"name":"other","state":"down","reason":"no money","since":"2026-01-02T03:00:00Z","retry_at":"2026-01-02T03:04:10Z","remedy":"top it up"}],
 "targets":[{"name":"checkout","state":"ok","depth":3,"want":2,"hour":{"hits":3,"misses":1,"requests":4,"hit_rate":0.75},
   "lead_time_s":{"p50":18.25},"days":[{"date":"2026-01-02","spent":0.25},{"date":"2026-01-01","spent":7}]},
  {"name":"login","state":"starved","reason":"why\u001b[2J","want":7,"warm":6,"limited_by":"credit","marks":["failing"],"days":[{"date":"2026-01-01","spent":7}]},
  {"name":"a","state":"refused","reason":"no"},{"name":"b","state":"refused","reason":"no"},{"name":"c","state":"refused","reason":"no"},
  {"name":"d","state":"refused","reason":"no"},{"name":"e","state":"refused","reason":"no"}],
 "solve":{"in_flight":5,"waiting":3,"requests":90,"bought":96,"solved":84,"failed":7,"spent":0.25,"reason":"the figures are the last known ones"},
 "dedup":{"requests":65,"saved":20,"missed":3,"refused":2,"saved_pct":33.3,"reason":""}}`

// `poold status` shows the alarms first, then targets with problems before others.
func TestStatusTable(t *testing.T) {
	const want = `as of 2026-01-02T03:04:05Z
Nothing is bought: no money

PROVIDER  STATE  ORDERS  LIMIT  BALANCE  CALLBACKS
service   ok     2       9      7.25     true
other     down   0       0      -        false
other: down; reason no money; since 2026-01-02T03:00:00Z; retry at 2026-01-02T03:04:10Z; remedy top it up

PROVIDER  TYPE       SHARE  SOLVED  ACCEPTED  LEAD  COST
service   turnstile  0.9    0.95    -         12.5  0.003

TARGET    STATE    FRESH  WANT  WARM  ORDERS  WAITING  HITS  REQUESTS  LEAD   SPENT
a         refused  0      0     -     0       0        0     0         0      0
b         refused  0      0     -     0       0        0     0         0      0
c         refused  0      0     -     0       0        0     0         0      0
d         refused  0      0     -     0       0        0     0         0      0
e         refused  0      0     -     0       0        0     0         0      0
login     starved  0      7     6     0       0        0     0         0      0
checkout  ok       0      2     -     0       0        0.75  4         18.25  0.25
a: refused; reason no
b: refused; reason no
c: refused; reason no
d: refused; reason no
e: refused; reason no
login: starved; reason why` + "\uFFFD" + `[2J; marks [failing]; limited by credit

poold 1.2.3; ready true; currency USD; dead letters 3
redis; mode single; ok true
budget; used 12; limit 20000
solve; in flight 5; waiting 3; requests 90; bought 96; solved 84; failed 7; spent 0.25; reason the figures are the last known ones
dedup; requests 65; saved 20; saved pct 33.3; missed 3; refused 2
`
	d := &daemon{answers: map[string]string{"GET /status.json": someStatus}}
	code, stdout, stderr := d.run(t, "status")
	if code != 0 || stdout != want || stderr != "" || d.asked[0] != "GET /status.json" {
		t.Errorf("exit %d, asked %s\n%s%s", code, d.asked, stdout, stderr)
	}
	d.answers[""] = `{"config":{"ok":false,"loaded_at":"t","problems":["pools.yaml:4: depth"]},"redis":{"mode":"single","reason":"away"}}`
	delete(d.answers, "GET /status.json")
	_, stdout, _ = d.run(t, "status")
	for _, part := range []string{"in use:\npools.yaml:4: depth\n", "no target matches\n", "redis; mode single; ok false; reason away\n"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in\n%s", part, stdout)
		}
	}
	if d.answers[""] = "<html>"; true {
		if code, _, stderr := d.run(t, "status"); code != 1 || !strings.HasPrefix(stderr, "poold status: reading the daemon's answer: ") {
			t.Errorf("exit %d, %s", code, stderr)
		}
	}
}

// A glob selects targets, in the JSON, too. A single match by name is shown with all its figures.
func TestStatusOfSome(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /status.json": someStatus}}
	for args, c := range map[string]struct {
		names []string
		all   bool
	}{
		"*[nt]": {[]string{"login", "checkout"}, false},
		"login": {[]string{"login"}, true},
		"ch*":   {[]string{"checkout"}, true},
		"none":  {nil, false},
	} {
		_, printed, _ := d.run(t, append([]string{"status"}, split(args)...)...)
		_, stdout, _ := d.run(t, append([]string{"status", "--json"}, split(args)...)...)
		var document status.Document
		err := json.Unmarshal([]byte(stdout), &document)
		var names []string
		for i := range document.Targets {
			names = append(names, document.Targets[i].Name)
		}
		if err != nil || document.Version != "1.2.3" || !slices.Equal(names, c.names) || strings.Contains(printed, "\nlead_time_s.p90 ") != c.all {
			t.Errorf("%s: %v %v\n%s", args, err, names, printed)
		}
		if strings.ContainsFunc(printed, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", printed)
		}
	}
	if _, stdout, _ := d.run(t, "status", "--json"); stdout != someStatus+"\n" || d.asked[len(d.asked)-1] != "GET /status.json" {
		t.Errorf("the document is not as it came: %s", stdout)
	}
}
