package httpapi

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"poold/internal/httpapi/kernel"
)

// TestPauseBody: a pause may have an end and a reason, which the status shows with who made
// it; what is wrong with a body is said, and changes nothing.
func TestPauseBody(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	send := func(body string) answer {
		return d.send(t, "POST", "/pool/checkout/pause", strings.NewReader(body), bearer(keyAll), "Content-Type: application/json")
	}
	for body, want := range map[string]string{
		`{"for":"2"}`: wantPauseFor, `{"for":7200}`: wantPauseFor, `{"for":"0s"}`: wantPauseFor, `{"for":"-1h"}`: wantPauseFor, `{"for":"721h"}`: wantPauseFor, `{"for":null}`: wantPauseFor,
		`{"reason":7}`: wantPauseReason, `{"reason":"` + strings.Repeat("x", 201) + `"}`: wantPauseReason,
		`{"reason":"a\nb"}`:       `"reason" must not hold line breaks or other control characters`,
		`{"reason":"a\u202Eb"}`:   `"reason" must not hold U+202E, which turns the direction of the text around it: remove it`,
		"{\"reason\":\"\u2066\"}": `"reason" must not hold U+2066, which turns the direction of the text around it: remove it`,
		`{"until":"2h"}`:          wantPause, `{"for":"2h","for":"3h"}`: wantPause, `[]`: wantPause, `{"for":{}}`: wantPauseFor,
	} {
		a := send(body)
		checkProblem(t, body, a, 400, kernel.CodeBadRequest, "checkout")
		var p kernel.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Detail != want {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	if d.stock.count("pause") != 0 {
		t.Error("a body that is refused pauses")
	}
	reason := func() string {
		d.status.Changed()
		target, _ := d.status.Snapshot(t.Context()).Document.Target("checkout")
		return target.Reason
	}
	for _, c := range []struct{ body, want string }{
		{``, `^paused by all$`}, {`{}`, `^paused by all$`}, {`{"reason":"הדף משתנה \u200f!"}`, `^paused by all: הדף משתנה \x{200f}!$`},
		{`{"reason":"the page <b>changes</b>"}`, `^paused by all: the page <b>changes</b>$`},
		{`{"for":"2h","reason":"release"}`, `^paused by all until \d{4}-\d\d-\d\d \d\d:\d\d UTC: release$`},
	} {
		if a := send(c.body); a.status != 204 {
			t.Errorf("%s: %d %s", c.body, a.status, a.body)
		}
		if got := reason(); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s: %q, want %s", c.body, got, c.want)
		}
	}
}
