package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/testkit"
)

const isJSON = "Content-Type: application/json"

func (d *daemon) report(t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	return d.send(t, "POST", path, strings.NewReader(body), append(headers, isJSON)...)
}

// TestReportCountsAndIsPassedOn: a report counts, once, if it comes from the caller that took the token.
// The buyer also gets the report.
func TestReportCountsAndIsPassedOn(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	const accepted, rejected = `{"outcome":"accepted"}`, " {\n \"outcome\" : \"rejected\" }\n"
	for _, c := range []struct {
		key, others   string
		body, another string
		part, written string // how a part of the token's id is written in the path
		accepted      bool
	}{
		{keyAll, keyStaging, accepted, rejected, "", "", true},
		{keyStaging, keyAll, rejected, accepted, "", "", false},
		{keyStaging, keyAll, rejected, accepted, "o", "%6F", false},
		{keyStaging, keyAll, rejected, accepted, ".", "%2e", false},
	} {
		d.stock.landToken(t, d.stock.order(t, d.target("staging-login")), 31*time.Second)
		id := d.takeOne(t, bearer(c.key))
		path := "/pool/staging-login/token/" + strings.Replace(id, c.part, c.written, 1) + "/report"
		// Only the caller that took a token may report on it.
		checkProblem(t, "another caller", d.report(t, path, c.body, bearer(c.others)), 404, CodeUnknownToken,
			"staging-login")
		d.report(t, path, c.body, bearer(c.key)).check(t, c.body, 204)
		order, _, _ := strings.Cut(id, ".")
		last := d.buyer.reports.last()
		if last.age < 31*time.Second || last.age > 36*time.Second {
			t.Errorf("told of an age of %s", last.age)
		}
		last.age = 0
		testkit.Equal(t, "told to the buyer",
			last, passedReport{"solver", "t-" + order, captcha.RecaptchaV2, 0, c.accepted})
		d.report(t, path, c.body, bearer(c.key)).check(t, "again", 204)
		checkProblem(t, "another outcome", d.report(t, path, c.another, bearer(c.key)), 409, CodeReported, "staging-login")
	}
	if f := d.stock.readStock(t, d.target("staging-login")).Counters; f.Accepted != 1 || f.Rejected != 3 {
		t.Errorf("the stock counted %+v", f)
	}
	testkit.Equal(t, "the buyer was told", len(d.buyer.reports.all()), 4)
	d.ask(t, "GET", "/metrics", bearer(keyAll)).check(t, "the metrics", 200,
		`poold_token_report_age_seconds_count{outcome="accepted"} 1`+"\n",
		`poold_token_report_age_seconds_count{outcome="rejected"} 3`+"\n")
	d.fill(t, "staging-login", 1)
	path := "/pool/staging-login/token/" + d.takeOne(t, bearer(keyAll)) + "/report"
	d.Stopping()
	d.report(t, path, `{"outcome":"accepted"}`, bearer(keyAll)).check(t, "while stopping", 204)
}

func (d *daemon) takeOne(t *testing.T, headers ...string) string {
	t.Helper()
	return idIn(t, d.ask(t, "GET", "/pool/staging-login/token", headers...))
}

// TestMalformedReportIsNotCounted: a report is one JSON object. A report with any other body, and a
// report that the stock refuses, is neither counted nor passed on.
func TestMalformedReportIsNotCounted(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 1)
	reportPath := "/pool/staging-login/token/" + d.takeOne(t) + "/report"
	for _, body := range []string{
		"", " ", "{}", "null", "5", "[]", `"accepted"`, `["outcome","accepted"]`, `{"outcome":null}`, `{"outcome":true}`,
		`{"outcome":1}`, `{"outcome":""}`, `{"outcome":"Accepted"}`, `{"outcome":"accepted "}`,
		`{"outcome":{"outcome":"accepted"}}`, `{"outcome":["accepted"]}`, `{"outcome":"accepted","why":""}`,
		`{"why":"","outcome":"accepted"}`, `{"outcome":"accepted"}{}`, `{"outcome":"accepted"}]`, `{"outcome":"accepted"} x`,
		`{"outcome":"accepted"`, `{"outcome":"accepted"]`, `{"outcome":"accepted",}`, `{"outcome" "accepted"}`,
		`{outcome:"accepted"}`, `{"outcome":"acc`, "outcome=accepted", "\x00", "\xff",
	} {
		checkProblem(t, body, d.report(t, reportPath, body), 400, CodeBadRequest, "staging-login")
	}
	const good = `{"outcome":"accepted"}`
	for _, kind := range []string{"Content-Type: text/plain", isForm, "X: y"} {
		checkProblem(t, kind, d.send(t, "POST", reportPath, strings.NewReader(good), kind), 400, CodeBadRequest,
			"staging-login")
	}
	checkProblem(t, "too long", d.report(t, reportPath, good+strings.Repeat(" ", MaxBody)), 413, CodeTooLarge,
		"staging-login")
	testkit.Equal(t, "reports at the stock", d.stock.countCalls("report"), 0)
	d.stock.failCalls("report", fmt.Errorf("x: %w", pool.ErrDown))
	checkProblem(t, "without redis", d.report(t, reportPath, good), 503, CodeStoreDown, "staging-login")
	d.stock.failCalls("", nil)
	elsewhere := strings.Replace(reportPath, "staging-login", "checkout", 1)
	checkProblem(t, "of another target", d.report(t, elsewhere, good), 404, CodeUnknownToken, "checkout")
	if told := d.buyer.reports.all(); len(told) > 0 ||
		strings.Contains(d.ask(t, "GET", "/metrics").body, "poold_token_report_age_seconds_count") {
		t.Errorf("a refused report was counted; the buyer was told %+v", told)
	}
	d.report(t, reportPath, good).check(t, "a good one", 204)
	d.stock.redis.Del("{captcha}:sale:o1")
	checkProblem(t, "too late", d.report(t, reportPath, good), 404, CodeUnknownToken, "staging-login")
	testkit.Equal(t, "reports at the buyer", len(d.buyer.reports.all()), 1)
}

// TestReportsAboutUnknownTokensAreRefused: reports about invented tokens add no guest.
func TestReportsAboutUnknownTokensAreRefused(t *testing.T) {
	d := start(t, solvingSet(t, allKeys()...), nil, nil)
	d.fill(t, "staging-login", 1)
	d.takeOne(t, bearer(keyAll))
	const guest = "/solve/a.b.00000000000000000000000000000001.turnstile"
	other := "/solve/a.b." + string(d.target("checkout").ID) + ".turnstile"
	for _, c := range []struct {
		key, path string
		code      Code
		target    string
	}{
		{keyStaging, guest, CodeForbidden, ""}, {keyStaging, other, CodeForbidden, ""},
		{keyAll, guest, CodeUnknownToken, ""}, {keyAll, other, CodeUnknownToken, "checkout"},
		{keyStaging, "/pool/staging-login/token/x", CodeUnknownToken, "staging-login"},
	} {
		a := d.report(t, c.path+"/report", `{"outcome":"rejected"}`, bearer(c.key))
		checkProblem(t, c.key, a, NewProblem(c.code, "").Status, c.code, c.target)
	}
}

// TestReportOfALeavingCallerCounts: a report that arrived is counted and passed on, even if its
// caller hangs up.
func TestReportOfALeavingCallerCounts(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 1)
	reportPath := "/pool/staging-login/token/" + d.takeOne(t) + "/report"
	began, finish := make(chan struct{}), make(chan struct{})
	d.stock.before = func(_ context.Context, call string) error {
		if call == "report" {
			close(began)
			<-finish
		}
		return nil
	}
	conn := dial(t, d.addr)
	const body = `{"outcome":"rejected"}`
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n%s", reportPath,
		isJSON, len(body), body)
	testkit.NoError(t, err)
	<-began
	reset(t, conn)
	time.Sleep(10 * time.Millisecond) // lets net/http notice the hang-up
	close(finish)
	testkit.Within(t, 20*time.Second, "the buyer is told", func() bool { return len(d.buyer.reports.all()) == 1 })

	conn = dial(t, d.addr) // an incomplete report does not count
	write(t, conn, "POST "+reportPath+" HTTP/1.1\r\nHost: localhost\r\n"+isJSON+"\r\nContent-Length: 40\r\n\r\n"+body)
	reset(t, conn)
	testkit.Within(t, 20*time.Second, "the take and both reports are over",
		func() bool { return strings.Count(d.logged.String(), `"msg":"request"`) == 3 })
	testkit.Equal(t, "reports at the buyer", len(d.buyer.reports.all()), 1)
}
