package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
)

// wrongKeyLine is a log line about a wrong key.
type wrongKeyLine struct {
	Level, Address, Route string
	Hash                  string `json:"key_hash"`
	Repeats               int
}

// wrongKeyLines returns the log lines about wrong keys that were written since the last call.
func wrongKeyLines(t *testing.T, d *daemon, seen *int) (list []wrongKeyLine) {
	t.Helper()
	text := d.logged.String()
	for line := range strings.Lines(text[*seen:]) {
		if strings.Contains(line, "caller's key") {
			var l wrongKeyLine
			noError(t, json.Unmarshal([]byte(line), &l))
			list = append(list, l)
		}
	}
	*seen = len(text)
	return list
}

// sendFrom passes a request from an address to the handler.
func (d *daemon) sendFrom(t *testing.T, remote, method, path, body string, headers ...string) answer {
	t.Helper()
	r := d.request(t, method, path, strings.NewReader(body), headers...)
	r.RemoteAddr = remote
	recorder := httptest.NewRecorder()
	d.Handler().ServeHTTP(recorder, r)
	return answer{asked: method + " " + path, status: recorder.Code, header: recorder.Header(), body: recorder.Body.String()}
}

// TestWrongKeysAreLoggedOnceAMinute: the hash of a wrong key is logged once a minute for each
// address. This applies to all routes, including the compatible endpoints. A missing key is not
// logged. The response distinguishes a missing key from a wrong key.
func TestWrongKeysAreLoggedOnceAMinute(t *testing.T) {
	inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
		const path, one, other = "/pool/checkout", "192.0.2.1", "192.0.2.2"
		seen := 0
		for _, headers := range [][]string{nil, {bearer("")}, {"Authorization: canary-key-without-scheme"}} {
			a := d.sendFrom(t, one+":1", "GET", path, "", headers...)
			checkProblem(t, "no key", a, 401, kernel.CodeUnauthorized, "")
			a.check(t, "no key", 401, "no key was sent")
		}
		d.sendFrom(t, one+":1", "POST", "/createTask", `{"task":{}}`)
		if lines := wrongKeyLines(t, d, &seen); len(lines) > 0 {
			t.Errorf("a missing key is logged: %+v", lines)
		}

		for i := range 4 {
			a := d.sendFrom(t, one+":"+fmt.Sprint(i+1), "GET", path, "", []string{bearer("canary-key-wrong"), basic("canary-key-wrong")}[i%2])
			a.check(t, "a wrong key", 401, "has no such key")
		}
		d.sendFrom(t, one+":9", "GET", legacySubmit("canary-key-wrong", "checkout"), "")
		d.sendFrom(t, one+":9", "POST", "/createTask", tasksSubmit("canary-key-other", "checkout", ""))
		d.sendFrom(t, other+":1", "GET", path, "", bearer("canary-key-wrong"))
		lines := wrongKeyLines(t, d, &seen)
		if len(lines) != 3 || lines[0].Address != one || lines[1].Address != one || lines[2].Address != other || lines[0].Level != "WARN" ||
			lines[0].Route != "/pool/:target" || lines[1].Route != "/createTask" ||
			len(lines[0].Hash) != 12 || lines[0].Hash != lines[2].Hash || lines[0].Hash == lines[1].Hash {
			t.Fatalf("%+v", lines)
		}

		time.Sleep(time.Minute)
		d.sendFrom(t, one+":1", "GET", path, "", bearer("canary-key-wrong"))
		again := wrongKeyLines(t, d, &seen)
		if len(again) != 1 || again[0].Hash != lines[0].Hash || again[0].Repeats != 4 {
			t.Errorf("a minute later: %+v", again)
		}

		// Another process has another secret.
		second, none := assemble(t, d.config.Current()), 0
		second.sendFrom(t, one+":1", "GET", path, "", bearer("canary-key-wrong"))
		if lines := wrongKeyLines(t, second, &none); len(lines) != 1 || lines[0].Hash == again[0].Hash {
			t.Errorf("another process: %+v, this one: %+v", lines, again)
		}
		if strings.Contains(d.logged.String()+second.logged.String(), "canary-key") {
			t.Errorf("the log shows a key:\n%s", d.logged)
		}
	})
}
