package httpapi

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
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

func (d *daemon) csvRows(t *testing.T, path string, headers ...string) (answer, [][]string) {
	t.Helper()
	a := d.ask(t, "GET", path, append(headers, "Accept: text/csv")...)
	h := a.header
	if a.status != 200 || h.Get("Content-Type") != "text/csv; charset=utf-8; header=present" ||
		h.Get("Vary") != "Accept" || h.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s: %d %v %s", path, a.status, h, a.body)
	}
	testkit.Equal(t, path+": lines that end in CRLF", strings.Count(a.body, "\r\n"), strings.Count(a.body, "\n"))
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %q, %v", path, rows, err)
	}
	return a, rows
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
	checkPages := func(want []string, paths map[string]int) {
		t.Helper()
		for path, pages := range paths {
			if ids, n := d.readPages(t, path); !slices.Equal(ids, want) || n != pages {
				t.Errorf("%s: %d pages of %q", path, n, ids)
			}
		}
	}
	checkPages(want, map[string]int{
		"/history/site/6Le": 3, "/history/site/6Le?limit=1000": 1, "/history/orders?status=solved&limit=13": 10,
		"/history/orders?limit=129&status=solved": 2,
	})
	slices.Reverse(entries)
	checkPages(entries, map[string]int{"/history/key/ci": 3, "/history/key/ci?limit=1000": 1,
		"/history/key/ci?limit=13": 10, "/history/key/ci?limit=129": 2})
	// Beginning with the constant day, 40 orders ended in each of three milliseconds. In the fourth
	// millisecond, ten orders ended.
	second := day.Add(time.Millisecond)
	for query, n := range map[string]int{
		"from=" + second.Format(time.RFC3339Nano):                          90,
		"from=" + second.Add(-time.Nanosecond).Format(time.RFC3339Nano):    90,
		"from=" + second.Add(time.Nanosecond).Format(time.RFC3339Nano):     50,
		"to=" + second.Format(time.RFC3339Nano):                            40,
		"to=" + second.Add(time.Nanosecond).Format(time.RFC3339Nano):       80,
		"from=2026-01-02T04:04:05.678%2B01:00&to=2026-01-02T03:04:05.680Z": 80,
		"from=2026-01-02&to=2026-01-03":                                    130,
		"from=2026-01-03":                                                  0,
		"to=2026-01-02":                                                    0,
		"from=1970-01-01&to=9999-12-31T23:59:59Z&cursor=" + cursorOf(history.Position{At: second, ID: orderID(45)}): 45,
	} {
		for _, path := range []string{"/history/site/6Le?limit=30&", "/history/orders?status=solved&limit=1000&"} {
			if ids, _ := d.readPages(t, path+query); !isContiguous(want, ids) || len(ids) != n {
				t.Errorf("%s%s: %d records, want %d: %q", path, query, len(ids), n, ids)
			}
		}
	}
	if q := d.history.lastAsked(); q.Targets != nil {
		t.Errorf("a caller without limits asks for %v alone", q.Targets)
	}
}

// isContiguous reports whether the list ids is a contiguous part of the list want.
func isContiguous(want, ids []string) bool {
	if len(ids) == 0 {
		return true
	}
	i := slices.Index(want, ids[0])
	return i >= 0 && i+len(ids) <= len(want) && slices.Equal(want[i:i+len(ids)], ids)
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
	d.golden(t, "day.txt", [][2]string{
		{keyAll, "day/2026-01-02"}, {keyStaging, "day/2026-01-02"}, {keyStaging, "day/2026-01-03"},
		{keyStatus, "day/2026-01-04"},
	})
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
	testkit.Equal(t, "asked for", len(d.history.asked), 0)
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

// keysOf returns the names in a JSON object in their order, including the names in embedded objects.
func keysOf(t *testing.T, object any) (keys []string) {
	t.Helper()
	text, err := json.Marshal(object)
	testkit.NoError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	_, _ = decoder.Token()
	for decoder.More() {
		key, _ := decoder.Token()
		keys = append(keys, fmt.Sprint(key))
		var value any
		testkit.NoError(t, decoder.Decode(&value))
	}
	return keys
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
	has := func(rows [][]string, names []string, want map[string]string) {
		t.Helper()
		if len(rows) != 2 || !slices.Equal(rows[0], names) {
			t.Fatalf("%d rows, names %q, want %q", len(rows), rows[0], names)
		}
		for name, value := range want {
			testkit.Equal(t, name, rows[1][slices.Index(names, name)], value)
		}
	}
	_, rows := d.csvRows(t, "/history/order/"+r.ID)
	has(rows, keysOf(t, history.Order{}), map[string]string{
		"id": r.ID, "target": "checkout", "owner": "Quality, \"Assurance\"\nBerlin", "type": "recaptcha_v2", "sitekey": "6Le",
		"pageurl": "https://checkout.example.com/", "provider": "solver", "task": "t-1", "status": "solved",
		"outcome": "solved", "code": "'-1", "placed_at": "2026-01-02T03:03:45.678Z",
		"submitted_at": "2026-01-02T03:03:47.428Z", "solved_at": "2026-01-02T03:04:00.678Z",
		"ended_at": "2026-01-02T03:04:05.678Z", "elapsed_ms": "18250", "polls": "3", "ended_by": "poll", "price": "0.00299",
		"choice": "cheapest",
	})
	_, rows = d.csvRows(t, "/history/site/"+url.PathEscape(formula.Sitekey))
	has(rows, keysOf(t, history.Order{}), map[string]string{
		"owner": "'+1", "sitekey": "'" + formula.Sitekey, "pageurl": "'x", "task": "'\tx", "code": "'@x",
	})
	a, rows := d.csvRows(t, "/history/orders?status=solved&limit=1")
	has(rows, keysOf(t, history.Order{}), map[string]string{"id": formula.ID})
	testkit.Equal(t, "a cursor in the Link", strings.Contains(a.header.Get("Link"), "cursor="), true)
	_, rows = d.csvRows(t, "/history/active")
	has(rows, keysOf(t, Active{}), map[string]string{"id": orderID(7), "sitekey": "'-k", "state": "bought"})
	_, rows = d.csvRows(t, "/history/day/2026-01-02")
	if len(rows) != 4 || !slices.Equal(rows[0], keysOf(t, UsageLine{})) ||
		!reflect.DeepEqual(rows[1:], [][]string{
			{"2026-01-02", "recaptcha_v2", "", "", "", "2", "2", "0", "0", "0", "0", "36500", "0.00598", "0"},
			{"2026-01-02", "", "checkout", "'+1", "", "1", "1", "0", "0", "0", "0", "18250", "0.00299", "0"},
			{"2026-01-02", "", "checkout", "Quality, \"Assurance\"\nBerlin", "", "1", "1", "0", "0", "0", "0", "18250",
				"0.00299", "0"},
		}) {
		t.Errorf("%q", rows)
	}
	d.ask(t, "GET", "/history/active", "Accept: text/csv;q=0.5, application/json").check(t, "JSON is preferred", 200,
		`{"records":`)
}
