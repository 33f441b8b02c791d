package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// askDaemon runs a client command against a daemon that gives one response. It returns the output,
// the exit code and the request.
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
 {"order":"0123.o-1","provider":"service","task":"t-1\u202e","kind":"token","code":"","reason":"redis does not answer (127.0.0.1:6379)","arrived":"2026-01-02T03:04:05Z","age_s":75,"until":"2026-01-02T04:06:05+01:00","bytes":512},
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
			[]string{"ORDER", "TASK", "AGE", "USELESS AFTER", "REASON", "0123.o-1", `t-1\u202e`, "token", "1m15s", "2026-01-02T03:06:05Z", "512",
				"redis does not answer (127.0.0.1:6379)\n", `ERROR_\x1b[2J`, " 0      -\n"}, "\x1b"},
		{"list as JSON, flags first", "--json list", 200, someLetters, exitDone, "GET /dead-letters Bearer key1", []string{strings.TrimSpace(someLetters) + "\n"}, "USELESS"},
		{"none", "list", 200, `{"letters":[]}`, exitDone, "GET /dead-letters Bearer key1", []string{"there are no dead letters\n"}, "ORDER"},
		{"some", "list", 200, `{"letters":[],"incomplete":true}`, exitDone, "GET /dead-letters Bearer key1", []string{"cannot be read"}, "no dead letters"},
		{"replay", "replay", 200, `{"replayed":3,"dropped":2,"expired":4,"left":1}`, exitDone, "POST /dead-letters/replay Bearer key1", []string{"3 replayed, 2 whose orders had ended, 4 too old, 1 left\n"}, "{"},
		{"replay in part", "replay", 200, `{"replayed":1,"left":2,"reason":"away"}`, exitDone, "POST /dead-letters/replay Bearer key1", []string{"1 replayed, 0 whose orders had ended, 0 too old, 2 left: away\n"}, "{"},
		{"replay as JSON", "replay --json", 200, `{"replayed":3,"dropped":2,"expired":4,"left":1}`, exitDone, "POST /dead-letters/replay Bearer key1", []string{`{"replayed":3,`}, "use"},
		{"redis is away", "replay", 503, `{"code":"store_down","detail":"redis does not answer"}`, exitFailed, "POST /dead-letters/replay Bearer key1", []string{"store_down: redis does not answer"}, ""},
		{"no such right", "list", 403, `{"code":"forbidden","detail":"this key lacks the scope admin"}`, exitFailed, "GET /dead-letters Bearer key1", []string{"forbidden"}, "key1"},
		{"no daemon of ours", "list", 200, `<html>`, exitFailed, "GET /dead-letters Bearer key1", []string{"reading the daemon's answer"}, ""},
		{"no word", "", 200, "", exitUsage, "", []string{"needs one of the words list, replay; `poold dead-letters --help` explains them\n"}, ""},
		{"a wrong word", "lits", 200, "", exitUsage, "", []string{"list, replay and does not know \"lits\"; did you mean list?\n"}, ""},
		{"two words", "list replay", 200, "", exitUsage, "", []string{`"replay"`}, ""},
		{"help of one", "list --help", 200, "", exitDone, "", []string{"usage: poold dead-letters list [flags]\n", "--json", "--key-file"}, "TARGET"},
		{"help", "--help", 200, "", exitDone, "", []string{"usage: poold dead-letters COMMAND\n", "  replay  store these"}, "TARGET"},
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
