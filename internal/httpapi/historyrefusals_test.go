package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"poold/internal/history"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// TestMalformedHistoryQueryIsRefused: the response to each mistake in testdata/badqueries.txt describes a valid query,
// and no store is queried.
func TestMalformedHistoryQueryIsRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	good := cursorOf(history.Position{At: day, ID: orderID(1)})
	named := strings.NewReplacer("{cursor}", good, "{cut}", good[1:], "{order}", orderID(1), "{odd}",
		cursorOf(history.Position{At: day, ID: "not-an-entry"}))
	eachCase(t, "badqueries.txt", func(path, detail string) {
		for _, list := range []string{"site/6Le?", "key/ci?", "orders?status=error&"} { // that LIST stands for
			query := "/history/" + strings.Replace(named.Replace(path), "LIST?", list, 1)
			checkProblem(t, query, d.ask(t, "GET", query), 400, CodeBadRequest, "", detail)
		}
	})
	testkit.Equal(t, "questions to the store", len(d.history.asked.all())+len(d.history.days.all()), 0)
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
		{fmt.Errorf("%w: no answer in time", history.ErrDown), 503, CodeStoreDown,
			"the store does not answer: no answer in time"},
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
	checkProblem(t, "active without redis", d.ask(t, "GET", "/history/active"), 503, CodeStoreDown, "",
		"redis does not answer")
}

// TestDisabledHistoryNamesTheSetting: without a store the response names the setting. Orders in
// flight are still listed, and malformed queries are still refused.
func TestDisabledHistoryNamesTheSetting(t *testing.T) {
	const noHistory = `{"type":"urn:poold:problem:no_history"`
	const noAudit, bad, empty = `{"type":"urn:poold:problem:no_audit"`, `{"type":"urn:poold:problem:bad_request"`,
		`{"records":[]}`
	const says, saysAudit = "no history is kept: the configuration file has `history: {backend: none}`",
		"no audit is kept: the configuration file has `history: {audit: 0s}`"
	for _, c := range []struct {
		kept        history.Sink
		paths       string
		status      int
		begin, says string
	}{
		{nil, "site/6Le orders?status=error orders?status=solved day/2026-01-02 usage?by=owner " +
			"usage?by=target&from=1970-01-01 order/" + orderID(1),
			404, noHistory, says},
		{nil, "key/ci key/- usage?by=key usage?by=key&from=1970-01-01", 404, noHistory, says},
		{newMemoryHistory(), "key/ci key/- usage?by=key usage?by=key&from=1970-01-01", 404, noAudit, saysAudit},
		{nil, "usage?by=x orders?status=x day/x site/6Le?limit=0", 400, bad, ""},
		{nil, "active", 200, empty, ""},
	} {
		d := assemble(t, sampleSet(allKeys()...))
		d.History, d.Audit = c.kept, false
		for path := range strings.FieldsSeq(c.paths) {
			d.handle(t, "GET", "/history/"+path, "", bearer(keyAll)).check(t, path, c.status, c.begin, c.says)
		}
	}
}
