package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"poold/internal/status"
)

// changedDaemon is a daemon whose target a command changes. It records its requests.
type changedDaemon struct {
	mayLook bool // the key has the scope status
	refuses string
	asked   []string
}

func (d *changedDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	looks := r.Method == http.MethodGet
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Header.Get("Authorization") != "Bearer key1", looks && !d.mayLook:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"code":"forbidden","detail":"this key lacks the scope status"}`)
		return
	case looks:
		target := status.Target{Name: "login", Fresh: 3, InFlight: 2, Depth: 5, Spent: 0.3, Counters: status.Counters{Counts: status.Counts{Solved: 100}, Discarded: 7}, Identity: "one"}
		document := status.Document{Targets: []status.Target{target, {Name: "goes"}, {Name: "stays"}}, Providers: []status.Provider{{}}}
		if len(d.asked) > 0 {
			target.Fresh, target.Discarded, target.Identity = 0, 10, "two"
			document.Targets = []status.Target{target, {Name: "new"}, {Name: "newer"}, {Name: "stays"}}
			document.Config.Warnings = []string{"w"}
		}
		if r.URL.Path == "/status.json" {
			_ = json.NewEncoder(w).Encode(document)
		} else {
			_ = json.NewEncoder(w).Encode(target)
		}
		return
	}
	d.asked = append(d.asked, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+r.Header.Get("Content-Type")+" "+string(body)))
	if d.refuses != "" {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, d.refuses)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// change runs a command against a daemon.
func (d *changedDaemon) change(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(d)
	defer server.Close()
	return runCommand(t, map[string]string{"POOLD_URL": server.URL, "POOLD_KEY": "key1"}, args...)
}

// Each command that changes a target sends one request to the route with the same name. It prints
// one line, with only the parts of the result that the key may read.
func TestChanges(t *testing.T) {
	const jsonType = " application/json "
	for _, c := range []struct {
		args  []string
		asked string
		says  string // end of the output if the key has the scope status
		alone string // end of the output without this scope
	}{
		{[]string{"pause", "login"}, "POST /pool/login/pause",
			"login: paused until it is resumed; 0 tokens ready and 2 on order are still handed out\n", "login: paused until it is resumed\n"},
		{[]string{"pause", "--for", "2h", "--reason", "the page\tchanges", "login"}, "POST /pool/login/pause" + jsonType + `{"for":"2h0m0s","reason":"the page\tchanges"}`,
			"; 0 tokens ready and 2 on order are still handed out\n", "login: paused until 20"},
		{[]string{"resume", "login"}, "POST /pool/login/resume",
			"login: buying continues; 0 tokens ready, 2 on order, depth 5\n", "login: buying continues\n"},
		{[]string{"flush", "login"}, "DELETE /pool/login/tokens",
			"login: 3 tokens discarded, worth about 0.0090 at the mean cost so far; 2 on order still land\n", "login: its ready tokens were discarded\n"},
		{[]string{"flush", "a/b?\x1b"}, "DELETE /pool/a%2Fb%3F%1B/tokens", "2 on order still land\n", "a/b?\uFFFD: its ready tokens were discarded\n"},
		{[]string{"reload"}, "POST /-/reload",
			"the file was read again: targets 4, of them new 2, with another identity 1; removed 1; providers 1; warnings 1\n", "the file was read again\n"},
		{[]string{"report", "login", "ID", "rejected"}, "POST /pool/login/token/ID/report" + jsonType + `{"outcome":"rejected"}`,
			"1 token reported as rejected\n", "1 token reported as rejected\n"},
		{[]string{"report", "ID/0", "accepted"}, "POST /solve/ID%2F0/report" + jsonType + `{"outcome":"accepted"}`,
			"1 token reported as accepted\n", "1 token reported as accepted\n"},
	} {
		sees, blind, refused := &changedDaemon{mayLook: true}, &changedDaemon{}, &changedDaemon{mayLook: true, refuses: `{"code":"paused_in_file","detail":"edit the file"}`}
		code, stdout, stderr := sees.change(t, c.args...)
		if code != 0 || stderr != "" || !strings.HasSuffix(stdout, c.says) || strings.Count(stdout, "\n") != 1 || strings.Join(sees.asked, ", ") != c.asked {
			t.Errorf("%q: exit %d, asked %q\n%q\n%s", c.args, code, sees.asked, stdout, stderr)
		}
		code, stdout, stderr = blind.change(t, c.args...)
		if code != 0 || stderr != "" || !strings.HasPrefix(stdout, c.alone) || strings.Count(stdout, "\n") != 1 || len(blind.asked) != 1 {
			t.Errorf("%q without the scope status: exit %d, asked %q\n%q\n%s", c.args, code, blind.asked, stdout, stderr)
		}
		code, stdout, stderr = refused.change(t, c.args...)
		if code != exitFailed || stdout != "" || stderr != "poold "+c.args[0]+": paused_in_file: edit the file\n" || len(refused.asked) != 1 {
			t.Errorf("%q is refused: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

// If a pause has an end, the output contains the time of the end.
func TestPauseSaysItsEnd(t *testing.T) {
	_, stdout, _ := (&changedDaemon{}).change(t, "pause", "login", "--for", "2h")
	end, err := time.Parse(time.RFC3339, strings.TrimSpace(strings.TrimPrefix(stdout, "login: paused until ")))
	if left := time.Until(end); err != nil || left > 2*time.Hour || left < time.Hour {
		t.Errorf("%v: %s", err, stdout)
	}
}

// With --json the output shows the target after the change. If the key may not read the target, the
// error says that the change was made.
func TestChangesAsJSON(t *testing.T) {
	for args, want := range map[string]string{
		"pause login":              `{"name":"login",`,
		"flush login":              `{"name":"login",`,
		"reload":                   `{"loaded_at":"","ok":false,"problems":null,"warnings":["w"],"lasting":null}`,
		"report login ID accepted": `{"target":"login","id":"ID","outcome":"accepted"}`,
		"report ID accepted":       `{"id":"ID","outcome":"accepted"}`,
	} {
		words := append(strings.Fields(args), "--json")
		code, stdout, stderr := (&changedDaemon{mayLook: true}).change(t, words...)
		if code != 0 || !strings.HasPrefix(stdout, want) || !json.Valid([]byte(stdout)) || strings.Count(stdout, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s%s", args, code, stdout, stderr)
		}
		if words[0] == "report" {
			continue
		}
		blind := &changedDaemon{}
		code, stdout, stderr = blind.change(t, words...)
		if code != exitFailed || stdout != "" || stderr != "poold "+words[0]+": the change is made, but cannot be shown: forbidden: this key lacks the scope status\n" || len(blind.asked) != 1 {
			t.Errorf("%s without the scope status: exit %d, asked %q\n%s%s", args, code, blind.asked, stdout, stderr)
		}
	}
}
