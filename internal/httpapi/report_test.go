package httpapi

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	reportPath = "/pool/staging-login/token/tok1/report"
	isJSON     = "Content-Type: application/json"
)

func (d *daemon) report(t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	return d.send(t, "POST", path, strings.NewReader(body), append(headers, isJSON)...)
}

// told returns the reports that reached the desk.
func (f *fakeDesk) told() []passed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]passed(nil), f.reports...)
}

// TestReport: what a caller says is counted for the caller that took the token,
// and passed on.
func TestReport(t *testing.T) {
	set := sampleSet(allKeys()...)
	d := start(t, set, nil, nil)
	var asked []string
	d.stock.report = func(id captcha.ID, token, caller string, accepted bool) (pool.Sale, error) {
		asked = append(asked, fmt.Sprintf("%s %s %q %v", id, token, caller, accepted))
		return pool.Sale{Provider: "solver", Task: "t7", Age: 31 * time.Second}, nil
	}
	for _, c := range []struct{ path, key, body string }{
		{reportPath, keyAll, `{"outcome":"accepted"}`},
		{"/pool/staging-login/token/TOK.a-b_c/report", keyStaging, " {\n \"outcome\" : \"rejected\" }\n"},
		{"/pool/staging-login/token/%54OK%2Ea%2fb/report", keyStaging, `{"outcome":"rejected"}`},
	} {
		if a := d.report(t, c.path, c.body, bearer(c.key)); a.status != 204 || a.body != "" {
			t.Errorf("%+v: %d %s", c, a.status, a.body)
		}
	}
	id := string(set.Targets[1].ID)
	want := []string{
		id + ` tok1 "key\x00all\x00" true`, id + ` TOK.a-b_c "key\x00staging\x00" false`, id + ` TOK.a/b "key\x00staging\x00" false`,
	}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("the stock was told\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
	told := d.desk.told()
	if len(told) != 3 || told[0] != (passed{"solver", "t7", captcha.RecaptchaV2, 31 * time.Second, true}) || told[1].accepted {
		t.Errorf("the desk was told %+v", told)
	}
	body := d.ask(t, "GET", "/metrics", bearer(keyAll)).body
	for _, line := range []string{
		`poold_token_report_age_seconds_count{outcome="accepted",target="staging-login"} 1`,
		`poold_token_report_age_seconds_sum{outcome="rejected",target="staging-login"} 62`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	// Who takes is named as who reports.
	d.ask(t, "GET", "/pool/staging-login/token", bearer(keyStaging))
	if _, request := d.stock.asked(); request.Caller != "key\x00staging\x00" {
		t.Errorf("a take by %q", request.Caller)
	}
	d.Stopping()
	if a := d.report(t, reportPath, `{"outcome":"accepted"}`, bearer(keyAll)); a.status != 204 {
		t.Errorf("while stopping: %d", a.status)
	}
}

// TestReportRefused: a report that is not counted is not passed on either.
func TestReportRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, c := range []struct {
		err    error
		status int
		code   code
	}{
		{fmt.Errorf("x: %w", pool.ErrUnknownToken), 404, codeUnknownToken},
		{fmt.Errorf("x: %w", pool.ErrReported), 409, codeReported},
		{pool.ErrDown, 503, codeStoreDown},
	} {
		d.stock.report = func(captcha.ID, string, string, bool) (pool.Sale, error) {
			return pool.Sale{Provider: "solver", Task: "t7"}, c.err
		}
		checkProblem(t, c.err.Error(), d.report(t, reportPath, `{"outcome":"accepted"}`), c.status, c.code, "staging-login")
	}
	if told := d.desk.told(); len(told) > 0 {
		t.Errorf("the desk was told %+v", told)
	}
	if body := d.ask(t, "GET", "/metrics").body; strings.Contains(body, "poold_token_report_age_seconds_count") {
		t.Error("a refused report was counted")
	}
}

// TestReportBodies: one form is understood, everything else refused before it
// counts.
func TestReportBodies(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.stock.report = func(captcha.ID, string, string, bool) (pool.Sale, error) {
		t.Error("it was counted")
		return pool.Sale{}, nil
	}
	for _, body := range []string{
		"", " ", "{}", "null", `"accepted"`, `["outcome","accepted"]`, `{"outcome":null}`, `{"outcome":true}`, `{"outcome":1}`, `{"outcome":""}`,
		`{"outcome":"Accepted"}`, `{"outcome":"accepted "}`, `{"Outcome":"accepted"}`, `{"outcome":{"outcome":"accepted"}}`, `{"outcome":["accepted"]}`,
		`{"outcome":"accepted","why":""}`, `{"why":"","outcome":"accepted"}`, `{"outcome":"accepted","outcome":"rejected"}`,
		`{"outcome":"accepted"}{}`, `{"outcome":"accepted"}]`, `{"outcome":"accepted"`, `{"outcome":"accepted",}`, `{"outcome" "accepted"}`, `{"outcome":"acc`, "outcome=accepted", "\x00", "\xff",
	} {
		checkProblem(t, body, d.report(t, reportPath, body), 400, codeBadRequest, "staging-login")
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", ""} {
		headers := []string{}
		if kind != "" {
			headers = append(headers, "Content-Type: "+kind)
		}
		a := d.send(t, "POST", reportPath, strings.NewReader(`{"outcome":"accepted"}`), headers...)
		checkProblem(t, kind, a, 400, codeBadRequest, "staging-login")
	}
	long := `{"outcome":"accepted"` + strings.Repeat(" ", maxBody) + "}"
	checkProblem(t, "too long", d.report(t, reportPath, long), 413, codeTooLarge, "staging-login")
}

// TestReporterHangsUp: a report that arrived is counted and passed on, whether
// its caller waits for the answer or not.
func TestReporterHangsUp(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	began, finish := make(chan struct{}), make(chan struct{})
	d.stock.report = func(captcha.ID, string, string, bool) (pool.Sale, error) {
		close(began)
		<-finish
		return pool.Sale{Provider: "solver", Task: "t7"}, nil
	}
	conn := dial(t, d.addr)
	const body = `{"outcome":"rejected"}`
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n%s", reportPath, isJSON, len(body), body); err != nil {
		t.Fatal(err)
	}
	<-began
	reset(t, conn)
	time.Sleep(10 * time.Millisecond) // for net/http to notice
	close(finish)
	eventually(t, "the desk is told", func() bool { return len(d.desk.told()) == 1 })

	conn = dial(t, d.addr) // half of one is none
	if _, err := io.WriteString(conn, "POST "+reportPath+" HTTP/1.1\r\nHost: localhost\r\n"+isJSON+"\r\nContent-Length: 40\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	reset(t, conn)
	eventually(t, "both requests are over", func() bool { return strings.Count(d.logged.String(), `"msg":"request"`) == 2 })
	if n := len(d.desk.told()); n != 1 {
		t.Errorf("%d reports", n)
	}
}
