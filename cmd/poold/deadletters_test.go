package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// askDaemon runs a client command against a daemon that gives one answer, and
// returns what it printed, its exit code and the request that it sent.
func askDaemon(t *testing.T, status int, answer string, args ...string) (printed string, code int, sent string) {
	t.Helper()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer daemon.Close()
	env := map[string]string{"POOLD_URL": daemon.URL, "POOLD_KEY": "key1"}
	var out strings.Builder
	code = run(t.Context(), args, func(name string) (string, bool) { value, ok := env[name]; return value, ok }, &out, &out)
	return out.String(), code, sent
}

const someLetters = `{"letters":[
 {"order":"0123.o-1","provider":"service","kind":"token","code":"","arrived":"2026-01-02T03:04:05Z","until":"2026-01-02T04:06:05+01:00","bytes":512},
 {"order":"0123.o-2","provider":"service","kind":"error","code":"ERROR_\u001b[2J","arrived":"2026-01-02T03:04:06Z","until":"2026-01-02T03:06:06Z","bytes":0}]}
`

func TestDeadLettersCommand(t *testing.T) {
	for _, c := range []struct {
		name, args string
		status     int
		answer     string
		code       int
		sent       string
		printed    []string
		never      string
	}{
		{"list", "list", 200, someLetters, exitDone, "GET /dead-letters Bearer key1",
			[]string{"ORDER", "USELESS AFTER", "0123.o-1", "token", "2026-01-02T03:06:05Z", "512", `ERROR_\x1b[2J`}, "\x1b"},
		{"list as JSON, flags first", "--json list", 200, someLetters, exitDone, "GET /dead-letters Bearer key1", []string{strings.TrimSpace(someLetters) + "\n"}, "USELESS"},
		{"none", "list", 200, `{"letters":[]}`, exitDone, "GET /dead-letters Bearer key1", []string{"there are no dead letters\n"}, "ORDER"},
		{"some", "list", 200, `{"letters":[],"incomplete":true}`, exitDone, "GET /dead-letters Bearer key1", []string{"cannot be read"}, "no dead letters"},
		{"replay", "replay", 200, `{"replayed":3,"dropped":2,"expired":4,"left":1}`, exitDone, "POST /dead-letters/replay Bearer key1", []string{"3 replayed, 2 whose orders had ended, 4 too old, 1 left\n"}, "{"},
		{"replay in part", "replay", 200, `{"replayed":1,"left":2,"reason":"away"}`, exitDone, "POST /dead-letters/replay Bearer key1", []string{"1 replayed, 0 whose orders had ended, 0 too old, 2 left: away\n"}, "{"},
		{"replay as JSON", "replay --json", 200, `{"replayed":3,"dropped":2,"expired":4,"left":1}`, exitDone, "POST /dead-letters/replay Bearer key1", []string{`{"replayed":3,`}, "use"},
		{"redis is away", "replay", 503, `{"code":"store_down","detail":"redis does not answer"}`, exitFailed, "POST /dead-letters/replay Bearer key1", []string{"store_down: redis does not answer"}, ""},
		{"no such right", "list", 403, `{"code":"forbidden","detail":"this key lacks the scope admin"}`, exitFailed, "GET /dead-letters Bearer key1", []string{"forbidden"}, "key1"},
		{"no daemon of ours", "list", 200, `<html>`, exitFailed, "GET /dead-letters Bearer key1", []string{"reading the daemon's answer"}, ""},
		{"no word", "", 200, "", exitUsage, "", []string{"list and replay"}, ""},
		{"a wrong word", "burn", 200, "", exitUsage, "", []string{"list and replay"}, ""},
		{"two words", "list replay", 200, "", exitUsage, "", []string{`"replay"`}, ""},
		{"help", "--help", 200, "", exitDone, "", []string{"usage: poold dead-letters [flags] list|replay\n", "-json", "-key-file"}, "TARGET"},
	} {
		printed, code, sent := askDaemon(t, c.status, c.answer, append([]string{"dead-letters"}, strings.Fields(c.args)...)...)
		if code != c.code || sent != c.sent {
			t.Errorf("%s: exit %d, asked %q\n%s", c.name, code, sent, printed)
		}
		for _, part := range c.printed {
			if !strings.Contains(printed, part) {
				t.Errorf("%s: no %q in\n%s", c.name, part, printed)
			}
		}
		if c.never != "" && strings.Contains(printed, c.never) {
			t.Errorf("%s: %q in\n%s", c.name, c.never, printed)
		}
	}
}

// The table of `poold status` shows what is amiss and what was spent.
func TestStatusTable(t *testing.T) {
	const document = `{"version":"1.2.3","ready":true,"config":{"ok":true},"redis":{"mode":"single","ok":true},
 "budget":{"used":12,"limit":20000},"dead_letters":3,
 "providers":[{"name":"service","state":"ok","in_flight":2,"concurrency":9,"callbacks":true},{"name":"other","state":"paused","reason":"no money"}],
 "targets":[{"name":"login","state":"starved","reason":"why","depth":5,"want":7,"warm":6,"refill":"adaptive","rail":"credit","shadow":{"text":"a fixed depth would have"},"hit_rate_needs":{"max_waste":12,"text":"99 % needs"},"marks":["failing","mostly_rejected"],"unknown":4,"bought":115,"lost":6,"spent":0.105123,
   "budget":{"hour":{"used":8,"limit":10},"day":{"used":77,"limit":500}}},
  {"name":"checkout","state":"ok","depth":3,"want":2,"refill":"fixed","shadow":{"text":"adaptive would have"},"marks":[],"budget":{"hour":null,"day":{"used":1,"limit":2}}},
  {"name":"signup","state":"ok","want":4,"warm":4,"marks":[],"budget":null}],
 "solve":{"guests":7,"fresh":2,"in_flight":5,"waiting":3,"requests":90,"bought":96,"solved":84,"failed":7,"spent":0.25,
   "budget":{"hour":null,"day":{"used":33,"limit":300}},"reason":"redis does not answer; the figures are the last known ones"},
 "dedup":{"requests":60,"shared":20,"saved_pct":33.3,"reason":""}}`
	printed, code, _ := askDaemon(t, 200, document, "status")
	for _, part := range []string{
		"starved, failing, mostly_rejected  ", "0.105123", "8/10 an hour, 77/500 a day\n", "  1/2 a day\n", "overall budget: 12/20000 a day\n",
		"dead letters: 3 (poold dead-letters list)\n", "\n\nlogin: why\nlogin: held by credit\nlogin: a fixed depth would have\nlogin: 99 % needs\n\ncheckout: adaptive would have\n\npoold",
		"DEPTH  WANT        REFILL    ORDERS", "  5      7 (warm 6)  adaptive  0", "  3      2           fixed     0", "  4 (warm)  ", "  yes\n", "  no\n", "UNKNOWN", "LOST",
		"\non-demand solves: guests 7, fresh 2, orders 5, waiting 3, requests 90, bought 96, solved 84, failed 7, spent 0.25; budget 33/300 a day\n" +
			"on-demand solves: redis does not answer; the figures are the last known ones\n" +
			"savings: 20 of 60 requests in the last 7 days shared a solve (33.3 %)\ndead letters",
	} {
		if !strings.Contains(printed, part) {
			t.Errorf("no %q in\n%s", part, printed)
		}
	}
	if code != exitDone {
		t.Errorf("exit %d", code)
	}
	if !strings.HasPrefix(printed, "PROVIDER") || strings.Index(printed, "\nTARGET") < strings.Index(printed, "other  ") {
		t.Errorf("the providers do not stand above the targets:\n%s", printed)
	}
	printed, _, _ = askDaemon(t, 200, `{"alarms":["Nothing is bought: provider service is paused: no money"],"ready":true,"targets":[]}`, "status")
	if !strings.HasPrefix(printed, "Nothing is bought: provider service is paused: no money\n\nPROVIDER") {
		t.Errorf("the alarm does not stand first:\n%s", printed)
	}
	printed, _, _ = askDaemon(t, 200, `{"solve":{"budget":{"day":{"used":0,"limit":9}}},"dedup":{"days":[]},"targets":[{"name":"signup","state":"ok","budget":null}]}`, "status")
	if strings.Contains(printed, "on-demand") || strings.Contains(printed, "savings") || strings.Contains(printed, "budget over") || strings.Contains(printed, "dead letters") || !strings.Contains(printed, "  -\n") {
		t.Errorf("shows what is not there:\n%s", printed)
	}
}
