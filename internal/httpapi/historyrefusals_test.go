package httpapi

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"poold/internal/history"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// TestMalformedHistoryQueryIsRefused: the response to each mistake describes a valid query, and no
// store is queried.
func TestMalformedHistoryQueryIsRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	const moment, limit, known = "such as 2026-01-02T15:04:05Z", "a whole number from 1 to 1000",
		"an unknown parameter; known: from, to, limit, cursor"
	good := cursorOf(history.Position{At: day, ID: orderID(1)})
	refused := func(path, detail string) {
		t.Helper()
		checkProblem(t, path, d.ask(t, "GET", path), 400, CodeBadRequest, "", detail)
	}
	for query, detail := range map[string]string{
		"from=": moment, "from=yesterday": moment, "to=2026-1-2": moment, "to=2026-02-30": moment, "from=2026-01-02T25:00:00Z": moment,
		"from=2026-01-02T15:04:05": moment, "from=2026-01-02T15:04:05+02:00": "%2B", "to=1969-12-31": moment, "from=0001-01-01": moment,
		"to=9999-12-31T23:59:59-01:00": moment, "from=1767312245": moment,
		"from=2026-01-02&to=2026-01-02": "from must be before to", "from=2026-01-03&to=2026-01-02": "from must be before to",
		"limit=": limit, "limit=0": limit, "limit=1001": limit, "limit=-1": limit, "limit=%2B5": limit, "limit=010": limit,
		"limit=5.0": limit, "limit=all": limit, "cursor=": "`next`", "cursor=x": "`next`", "cursor=" + good + "=": "`next`",
		"cursor=" + good[1:]: "`next`", "cursor=" + good + "AA": "`next`", "cursor=" +
			cursorOf(history.Position{At: day, ID: "not-an-entry"}): "`next`",
		"limit=5&limit=5": "limit is given more than once", "cursor=" + good + "&cursor=": "cursor is given more than once",
		"targets=a": known, "Limit=5": known, "%zz": "not well-formed",
	} {
		for _, path := range []string{"/history/site/6Le?", "/history/key/ci?", "/history/orders?status=error&"} {
			refused(path+query, detail)
		}
	}
	for path, detail := range map[string]string{
		"orders": "solved or error", "orders?status=": "solved or error", "orders?status=failed": "solved or error",
		"orders?status=error&status=solved": "status is given more than once", "site/6Le?status=error": known,
		"active?limit=5": "no query parameters", "key/ci?by=key": known, "day/2026-1-2": "/history/day/2026-01-02",
		"day/today": "/history/day/2026-01-02", "day/1969-12-31": "/history/day/2026-01-02",
		"day/2026-01-02T00:00:00Z": "/history/day/2026-01-02", "day/2026-01-02?from=2026-01-02": "no query parameters",
		"order/" + orderID(1) + "?x": "no query parameters", "usage?by=": "owner, target or key",
		"usage?by=keys": "owner, target or key", "usage?by=owner&by=target": "by is given more than once",
		"usage?by=owner&per=": "per must be day", "usage?by=key&per=week": "per must be day",
		"usage?by=owner&limit=5": "known: by, per, from, to", "usage?by=owner&from=yesterday": moment,
		"usage?by=owner&to=": moment, "usage?by=target&from=2026-01-02&to=2026-01-02": "from must be before to",
		"usage?by=owner&from=2026-01-02&to=2026-01-03": "the history (history.keep) keeps 2160 hours",
		"usage?by=key&from=2026-01-02&to=2026-01-03":   "the audit (history.audit) keeps 720 hours",
		"usage?by=key&from=2100-01-01":                 "from must not be after today",
	} {
		refused("/history/"+path, detail)
	}
	for _, name := range []string{
		"%00", "a%0Ab", "%ff", "a%2Fb", "%2E%2E", "%20", "a%20b", "'%20or%201=1--", "a%7Cb", "%2A", "ä", "--", "-a", ".a",
		"_", "%25", strings.Repeat("k", 64), "a%0A",
	} {
		refused("/history/key/"+name, "a key's name is 1 to 63 letters")
	}
	testkit.Equal(t, "questions to the store", len(d.history.asked)+len(d.history.days), 0)
}

// TestUnreachableHistoryIsNamed: the response names an unreachable store and its reason, and does not contain the
// text of another error. Orders in flight are still listed.
func TestUnreachableHistoryIsNamed(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.writeRecords(t, solvedRecord(1, "checkout", 0))
	for _, c := range []struct {
		err    error
		status int
		code   Code
		detail string
	}{
		{fmt.Errorf("%w: no answer in time", history.ErrDown), 503, CodeStoreDown, "the store does not answer: no answer in time"},
		{errors.New("canary-cause"), 500, CodeInternal, "an unexpected error; the daemon's log has the cause"},
	} {
		d.history.down = c.err
		for _, path := range []string{
			"/history/site/6Le", "/history/orders?status=error", "/history/day/2026-01-02", "/history/order/" + orderID(1),
			"/history/usage?by=owner", "/history/key/ci", "/history/usage?by=key",
		} {
			a := d.ask(t, "GET", path)
			checkProblem(t, path, a, c.status, c.code, "", `"detail":"`+c.detail+`"`)
			if strings.Contains(a.body, "canary") || (a.header.Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("%s: %v %s", path, a.header, a.body)
			}
		}
		d.ask(t, "GET", "/history/active").check(t, "orders in flight", 200)
	}
	d.buyer.unlisted = redisdb.ErrDown
	checkProblem(t, "active without redis", d.ask(t, "GET", "/history/active"), 503, CodeStoreDown, "", "redis does not answer")
}

// TestDisabledHistoryNamesTheSetting: without a store the response names the setting. Orders in
// flight are still listed, and malformed queries are still refused.
func TestDisabledHistoryNamesTheSetting(t *testing.T) {
	const noHistory = `{"type":"urn:poold:problem:no_history"`
	const noAudit, bad, empty = `{"type":"urn:poold:problem:no_audit"`, `{"type":"urn:poold:problem:bad_request"`, `{"records":[]}`
	const says, saysAudit = "no history is kept: the configuration file has `history: {backend: none}`",
		"no audit is kept: the configuration file has `history: {audit: 0s}`"
	for _, c := range []struct {
		kept        history.Sink
		paths       string
		status      int
		begin, says string
	}{
		{nil, "site/6Le orders?status=error orders?status=solved day/2026-01-02 usage?by=owner usage?by=target&from=1970-01-01 order/" + orderID(1),
			404, noHistory, says},
		{nil, "key/ci key/- usage?by=key usage?by=key&from=1970-01-01", 404, noHistory, says},
		{newMemoryHistory(), "key/ci key/- usage?by=key usage?by=key&from=1970-01-01", 404, noAudit, saysAudit},
		{nil, "usage?by=x orders?status=x day/x site/6Le?limit=0", 400, bad, ""},
		{nil, "active", 200, empty, ""},
	} {
		s := quietServer(t, func(deps *Deps) { deps.History = c.kept })
		for path := range strings.FieldsSeq(c.paths) {
			r, w := httptest.NewRequest("GET", "/history/"+path, nil), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer "+keyAll)
			s.handler.ServeHTTP(w, r)
			answer{asked: path, status: w.Code, body: w.Body.String()}.check(t, path, c.status, c.begin, c.says)
		}
	}
}
