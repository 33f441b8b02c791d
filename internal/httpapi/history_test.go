package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

// cursorOf returns the cursor of the page that begins after a position.
func cursorOf(p history.Position) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", p.At.UnixMilli(), p.ID))
}

// orderID returns the id of the n-th order of a test. The ids sort as the numbers do.
func orderID(n int) string {
	return "ORDER" + strings.Repeat("A", 18) + string([]byte{'A' + byte(n/676), 'A' + byte(n/26%26), 'A' + byte(n%26)})
}

// underWay returns the n-th order of a test as an order in flight.
func underWay(n int, target, sitekey string, state pool.State, placed time.Time) purchase.OrderInFlight {
	return purchase.OrderInFlight{State: state, Purchase: purchase.Purchase{
		Order: orderID(n), Target: target, Owner: target + "@example.com", Placed: placed,
		Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: sitekey},
	}}
}

// solvedRecord returns an order that ended at the given time after the constant day.
func solvedRecord(n int, target string, later time.Duration) history.Order {
	ended := day.Add(later)
	before := func(d time.Duration) history.Time { return history.Time{Time: ended.Add(-d)} }
	return history.Order{
		ID: orderID(n), Target: target, Owner: "qa@example.com", Type: captcha.RecaptchaV2, Sitekey: "6Le",
		Pageurl: "https://" + target + ".example.com/", Provider: "solver", Task: fmt.Sprint("t-", n),
		Outcome: history.Solved, PlacedAt: before(20 * time.Second), SubmittedAt: before(18250 * time.Millisecond),
		SolvedAt: before(5 * time.Second), EndedAt: before(0), ElapsedMS: 18250, Polls: 3, EndedBy: "poll", Price: 2_990_000,
		Choice: "cheapest",
	}
}

// writeRecords writes orders twice, because a sender may also repeat a write.
func (d *daemon) writeRecords(t *testing.T, orders ...history.Order) {
	t.Helper()
	for _, o := range orders {
		if o.Status = history.StatusError; o.Outcome == history.Solved {
			o.Status = history.StatusSolved
		}
		for range 2 {
			testkit.NoError(t, d.history.Append(t.Context(), []history.Row{o.Row()}))
		}
	}
}

// decodeAnswer decodes the JSON of a successful response.
func decodeAnswer[T any](t *testing.T, a answer) T {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" ||
		a.header.Get("Cache-Control") != "no-store" || a.header.Get("Vary") != "Accept" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	return parseAnswer[T](t, a)
}

// readPages requests one page after the other and returns the ids of the records or entries.
func (d *daemon) readPages(t *testing.T, path string) (ids []string, pages int) {
	t.Helper()
	base, _ := url.Parse(path)
	for next := path; next != ""; pages++ {
		a := d.ask(t, "GET", next)
		list := decodeAnswer[struct {
			Records []struct{ ID string }
			Next    string
		}](t, a)
		for _, r := range list.Records {
			ids = append(ids, r.ID)
		}
		next = ""
		link, _ := url.Parse(strings.TrimSuffix(strings.TrimPrefix(a.header.Get("Link"), "<"), `>; rel="next"`))
		if link.Query().Get("cursor") != list.Next || pages > 100 {
			t.Fatalf("page %d of %s: next %q, %v", pages, path, list.Next, a.header)
		}
		if list.Next != "" {
			next = base.ResolveReference(link).String()
		}
	}
	return ids, pages
}

// TestPagesShowEachRecordOnce: the pages together contain each record once, newest first, even if
// many records have the same millisecond.
func TestPagesShowEachRecordOnce(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	var want, entries []string
	for n := range 130 {
		later := time.Duration(n/40) * time.Millisecond
		r, e := solvedRecord(n, "checkout", later), entryOf(n, "ci", "checkout", history.Taken, later)
		d.writeRecords(t, r)
		d.addEntries(t, e)
		want, entries = append(want, r.ID), append(entries, e.ID)
	}
	slices.Reverse(want)
	slices.Reverse(entries)
	for path, c := range map[string]struct {
		want  []string
		pages int
	}{
		"/history/site/6Le": {want, 3}, "/history/site/6Le?limit=1000": {want, 1},
		"/history/orders?status=solved&limit=13": {want, 10}, "/history/orders?limit=129&status=solved": {want, 2},
		"/history/key/ci": {entries, 3}, "/history/key/ci?limit=1000": {entries, 1},
		"/history/key/ci?limit=13": {entries, 10}, "/history/key/ci?limit=129": {entries, 2},
	} {
		ids, n := d.readPages(t, path)
		testkit.DeepEqual(t, path, ids, c.want)
		testkit.Equal(t, path+": pages", n, c.pages)
	}
}

// TestRangeOfAHistoryQuery: a query asks the store for the rows of a range of times, after the position of a cursor. A
// day is its first moment.
func TestRangeOfAHistoryQuery(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	moment, newYear := day.Add(time.Millisecond), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	after := history.Position{At: moment, ID: orderID(45)}
	for query, want := range map[string]history.Query{
		"": {},
		"from=" + moment.Format(time.RFC3339Nano):                          {From: moment},
		"to=" + moment.Add(1).Format(time.RFC3339Nano):                     {To: moment.Add(1)},
		"from=2026-01-02T04:04:05.678%2B01:00&to=2026-01-02T03:04:05.679Z": {From: day, To: moment},
		"from=2026-01-01&to=2026-01-02":                                    {From: newYear, To: newYear.AddDate(0, 0, 1)},
		"from=1970-01-01&cursor=" + cursorOf(after):                        {From: time.Unix(0, 0).UTC(), Before: after},
		"to=9999-12-31T23:59:59Z":                                          {To: last},
	} {
		for _, path := range []string{"/history/site/6Le?", "/history/orders?status=solved&", "/history/key/ci?"} {
			d.ask(t, "GET", path+query).check(t, "a range", 200)
			got := d.history.asked.last()
			want.By, want.Value, want.Limit = got.By, got.Value, defaultPage // others test them
			testkit.DeepEqual(t, path+query, got, want)
		}
	}
}

// TestDayHasFiguresByTypeAndTarget: a day has figures by type, and figures by target and owner.
func TestDayHasFiguresByTypeAndTarget(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	all := []history.Order{solvedRecord(0, "staging-signup", 0), solvedRecord(1, "checkout", 0),
		solvedRecord(2, "checkout", time.Second), solvedRecord(3, "/solve", 0), solvedRecord(4, "gone", 0),
		solvedRecord(5, "checkout", 0), solvedRecord(6, "checkout", 0), solvedRecord(7, "checkout", 0),
		solvedRecord(8, "checkout", 0), solvedRecord(9, "checkout", 21*time.Hour)}
	all[3].Type, all[2].Owner = captcha.Image, "other@example.com"
	for i, how := range []history.Outcome{history.Failed, history.Refused, history.Lost, history.Discarded} {
		all[5+i].Outcome = how
	}
	d.writeRecords(t, all...)
	// A limited key gets no figures by type, because these would include other targets.
	d.golden(t, "day.txt",
		[]string{keyAll, "day/2026-01-02"}, []string{keyStaging, "day/2026-01-02"}, []string{keyStaging, "day/2026-01-03"},
		[]string{keyStatus, "day/2026-01-04"},
	)
}

// TestLimitedKeySeesItsHistory: on each route of the history, a key with globs sees only those
// targets of the configuration file that its globs include.
func TestLimitedKeySeesItsHistory(t *testing.T) {
	keys := allKeys()
	keys[2].Targets = []string{"other-*"} // for a key whose globs include no target, no store is queried
	d := start(t, sampleSet(keys...), nil, nil)
	for _, path := range []string{"/history/site/6Le", "/history/orders?status=solved", "/history/active"} {
		d.ask(t, "GET", path, bearer(keyStatus)).check(t, "a key without targets", 200, `{"records":[]}`+"\n")
	}
	testkit.Equal(t, "asked for", len(d.history.asked.all()), 0)
	names := []string{"staging-login", "checkout", "staging-gone", "/solve", "staging-signup"}
	for n, name := range names {
		r := solvedRecord(n, name, time.Duration(n)*time.Second)
		failed := r
		failed.ID, failed.Outcome = orderID(100+n), history.Failed
		d.writeRecords(t, r, failed)
		u := underWay(n, name, "", pool.Unknown, r.PlacedAt.Time)
		u.Submitted, u.Age = r.SubmittedAt.Time, 1234567*time.Microsecond
		d.buyer.underWay = append(d.buyer.underWay, u)
	}
	numbers := map[string]string{}
	for n := range 105 {
		numbers[orderID(n)] = fmt.Sprint(n)
	}
	for _, c := range []struct{ key, path, want string }{
		{keyStaging, "site/6Le", "104 4 100 0"}, {keyAll, "site/6Le", "104 4 103 3 102 2 101 1 100 0"},
		{keyStaging, "orders?status=error", "104 100"}, {keyAll, "orders?status=error", "104 103 102 101 100"},
		{keyStaging, "orders?status=solved", "4 0"}, {keyAll, "orders?status=solved", "4 3 2 1 0"},
		{keyStaging, "active", "4 0"}, {keyAll, "active", "4 3 2 1 0"},
		// The parameter target selects one of the targets that the key sees.
		{keyStaging, "orders?status=solved&target=staging-login", "0"},
		{keyStaging, "orders?status=solved&target=checkout", ""}, {keyStaging, "orders?status=solved&target=%2Fsolve", ""},
		{keyAll, "orders?status=solved&target=staging-gone", "2"}, {keyAll, "orders?status=solved&target=%2Fsolve", "3"},
		{keyAll, "orders?status=solved&target=no-such", ""},
		{keyAll, "orders?status=solved&owner=qa%40example.com", "4 3 2 1 0"},
		{keyAll, "orders?status=solved&owner=x", ""},
	} {
		a := d.ask(t, "GET", "/history/"+c.path, bearer(c.key))
		var got []string
		for _, r := range decodeAnswer[HistoryPage[history.Order]](t, a).Records {
			got = append(got, numbers[r.ID])
		}
		if testkit.Equal(t, c.path, strings.Join(got, " "), c.want); c.key == keyStaging &&
			(strings.Contains(a.body, "checkout") || strings.Contains(a.body, "/solve")) {
			t.Errorf("%s: %s", c.path, a.body)
		}
	}
	d.ask(t, "GET", "/history/orders?status=solved&owner=", bearer(keyAll)).check(t, "no owner", 400,
		"owner must be the owner of a target")
	d.ask(t, "GET", "/history/orders?status=solved&target=", bearer(keyAll)).check(t, "no name", 400,
		"target must be the name of a target, or /solve")
	for n, name := range names {
		a := d.ask(t, "GET", "/history/order/"+orderID(n), bearer(keyStaging))
		if n == 0 || n == 4 {
			testkit.Equal(t, name, decodeAnswer[history.Order](t, a).Target, name)
			continue
		}
		checkProblem(t, name, a, 404, CodeUnknownOrder, "")
	}
}

// TestCSVHasTheColumnsOfTheJSON: the columns of the CSV are the fields of the JSON response. No
// cell is a spreadsheet formula.
func TestCSVHasTheColumnsOfTheJSON(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	r, formula := solvedRecord(1, "checkout", 0), solvedRecord(2, "checkout", 0)
	r.Owner, r.Code = "Quality, \"Assurance\"\r\nBerlin", "-1"
	formula.Sitekey, formula.Owner, formula.Code, formula.Task, formula.Pageurl = "=cmd|' /C calc'!A0", "+1", "@x", "\tx",
		"\rx"
	d.writeRecords(t, r, formula)
	d.buyer.underWay = []purchase.OrderInFlight{underWay(7, "", "-k", pool.Bought, day)}
	var requests [][]string
	for _, path := range []string{"order/" + r.ID, "site/" + url.PathEscape(formula.Sitekey), "active", "day/2026-01-02"} {
		requests = append(requests, []string{"", path, "text/csv"},
			[]string{"", path, "text/csv;q=0.5, application/json"}) // JSON is preferred
	}
	d.golden(t, "csv.txt", requests...)
	a := d.ask(t, "GET", "/history/orders?status=solved&limit=1", "Accept: text/csv")
	testkit.Equal(t, "a cursor in the Link", strings.Contains(a.header.Get("Link"), "cursor="), true)
}
