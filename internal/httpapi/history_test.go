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
	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// cursorOf returns the cursor of the page that begins after a position.
func cursorOf(p history.Position) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", p.Ended.UnixMilli(), p.ID))
}

const identityOfOrders = "0123456789abcdef0123456789abcdef"

// orderID returns the id of the n-th order of a test.
func orderID(n int) string { return fmt.Sprintf("ORDER%03d.%s", n, identityOfOrders) }

// underWay returns the n-th order of a test as an order in flight.
func underWay(n int, target, sitekey string, state pool.State, placed time.Time) purchase.OrderInFlight {
	return purchase.OrderInFlight{State: state, Purchase: purchase.Purchase{
		Order: fmt.Sprintf("ORDER%03d", n), ID: identityOfOrders, Target: target, Placed: placed,
		Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: sitekey},
	}}
}

// solvedRecord returns the record of an order that ended at the given time after the constant day.
func solvedRecord(n int, target string, later time.Duration) history.Record {
	ended := day.Add(later)
	return history.Record{
		ID: orderID(n), Identity: identityOfOrders, Target: target, Owner: "qa@example.com", Type: captcha.RecaptchaV2,
		Sitekey: "6Le", Pageurl: "https://" + target + ".example.com/", Provider: "solver", Task: fmt.Sprint("t-", n), How: history.Solved,
		Placed: ended.Add(-20 * time.Second), Submitted: ended.Add(-18250 * time.Millisecond), Ended: ended, Solved: ended.Add(-5 * time.Second),
		Polls: 3, Price: 2_990_000, Choice: "cheapest",
	}
}

// writeRecords writes records twice, because a sender may also repeat a write.
func (d *daemon) writeRecords(t *testing.T, records ...history.Record) {
	t.Helper()
	for range 2 {
		noError(t, d.history.Write(t.Context(), records))
	}
}

// decodeAnswer decodes the JSON of a successful response.
func decodeAnswer[T any](t *testing.T, a answer) T {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Vary") != "Accept" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	return parseAnswer[T](t, a)
}

func (d *daemon) csvRows(t *testing.T, path string, headers ...string) (answer, [][]string) {
	t.Helper()
	a := d.ask(t, "GET", path, append(headers, "Accept: text/csv")...)
	h := a.header
	if a.status != 200 || h.Get("Content-Type") != "text/csv; charset=utf-8; header=present" || h.Get("Vary") != "Accept" || h.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s: %d %v %s", path, a.status, h, a.body)
	}
	equal(t, path+": lines that end in CRLF", strings.Count(a.body, "\r\n"), strings.Count(a.body, "\n"))
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %q, %v", path, rows, err)
	}
	return a, rows
}

// TestSolveShowsEachEnd compares the whole response for each possible end of an order.
func TestSolveShowsEachEnd(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	solved := solvedRecord(1, "checkout", 0)
	called, refused, lost, failed := solved, solved, solved, solved
	called.ID, called.Callback, called.Polls = orderID(2), true, 0
	refused.ID, refused.How, refused.Code, refused.Task, refused.Polls = orderID(3), history.Refused, "ERROR_WRONG_SITEKEY", "", 0
	lost.ID, lost.How, lost.Task, lost.Polls, lost.Submitted, lost.Solved = orderID(4), history.Lost, "", 0, time.Time{}, time.Time{}
	lost.Choice = "" // an older version placed the order
	failed.ID, failed.How, failed.Code, failed.Solved = orderID(5), history.Failed, "ERROR_CAPTCHA_UNSOLVABLE", time.Time{}
	d.writeRecords(t, solved, called, refused, lost, failed)

	const about = `"target":"checkout","owner":"qa@example.com","type":"recaptcha_v2","sitekey":"6Le","pageurl":"https://checkout.example.com/","provider":"solver",`
	const times = `"placed_at":"2026-01-02T03:03:45.678Z","submitted_at":"2026-01-02T03:03:47.428Z","solved_at":"2026-01-02T03:04:00.678Z","ended_at":"2026-01-02T03:04:05.678Z","elapsed_ms":18250,`
	for n, want := range []string{
		about + `"task":"t-1","status":"solved","how":"solved","code":"",` + times + `"polls":3,"by":"poll","price":0.00299,"choice":"cheapest"}`,
		about + `"task":"t-1","status":"solved","how":"solved","code":"",` + times + `"polls":0,"by":"callback","price":0.00299,"choice":"cheapest"}`,
		about + `"task":"","status":"error","how":"refused","code":"ERROR_WRONG_SITEKEY",` + times + `"polls":0,"by":"","price":0,"choice":"cheapest"}`,
		about + `"task":"","status":"error","how":"lost","code":"","placed_at":"2026-01-02T03:03:45.678Z","submitted_at":"","solved_at":"",` +
			`"ended_at":"2026-01-02T03:04:05.678Z","elapsed_ms":0,"polls":0,"by":"","price":0.00299,"choice":""}`,
		about + `"task":"t-1","status":"error","how":"failed","code":"ERROR_CAPTCHA_UNSOLVABLE",` +
			strings.Replace(times, `"solved_at":"2026-01-02T03:04:00.678Z"`, `"solved_at":""`, 1) + `"polls":3,"by":"poll","price":0,"choice":"cheapest"}`,
	} {
		a := d.ask(t, "GET", "/history/solve/"+orderID(n+1))
		if got := `{"id":"` + orderID(n+1) + `",` + want + "\n"; a.status != 200 || a.body != got {
			t.Errorf("%d\n%s\nwant\n%s", a.status, a.body, got)
		}
	}
	for _, id := range []string{orderID(9), "a%2Fb", "ORDER001", "%00"} {
		checkProblem(t, id, d.ask(t, "GET", "/history/solve/"+id), 404, kernel.CodeUnknownSolve, "")
	}
	if n := len(d.history.ids); n != 6 || d.history.ids[5] != orderID(9) {
		t.Errorf("the store was asked for %q", d.history.ids)
	}
}

// TestSitekeyInThePathMayBeAnyText: a site key in a path may contain any printable character.
func TestSitekeyInThePathMayBeAnyText(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	keys := []string{"6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", "a/b", "/", "a%2Fb", "%", "a b", "?x=1&y#z", "+", "ü", "..", "a;b,c", `"\'<>`, "{}|^`[]", "=1+1", strings.Repeat("k", 256)}
	for i, key := range keys {
		r := solvedRecord(i, "checkout", 0)
		r.Sitekey = key
		d.writeRecords(t, r)
	}
	for i, key := range keys {
		path := url.PathEscape(key)
		if key == ".." {
			path = "%2E%2E"
		}
		list := decodeAnswer[historyapi.List](t, d.ask(t, "GET", "/history/site/"+path))
		if len(list.Records) != 1 || list.Records[0].Sitekey != key || list.Records[0].ID != orderID(i) || list.Next != "" {
			t.Errorf("%q: %+v", key, list)
		}
	}
	for _, path := range []string{"%00", "a%0Ab", "%ff", "%7F", strings.Repeat("k", 257), "a%E2%80%A8b"} {
		checkProblem(t, path, d.ask(t, "GET", "/history/site/"+path), 400, kernel.CodeBadRequest, "", "/history/site/a%2Fb")
	}
}

// readPages requests one page after the other and returns the ids of the records or entries.
func (d *daemon) readPages(t *testing.T, path string) (ids []string, pages int) {
	t.Helper()
	base, _ := url.Parse(path)
	for next := path; next != ""; pages++ {
		a := d.ask(t, "GET", next)
		list := decodeAnswer[struct {
			Records, Entries []struct{ ID string }
			Next             string
		}](t, a)
		for _, r := range append(list.Records, list.Entries...) {
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
		d.addEntries(e)
		want, entries = append(want, r.ID), append(entries, e.ID)
		d.buyer.underWay = append(d.buyer.underWay, underWay(n, "checkout", "", pool.Bought, r.Ended))
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
		"/history/site/6Le": 3, "/history/site/6Le?limit=1000": 1, "/history/tasks?status=solved&limit=13": 10, "/history/tasks?limit=129&status=solved": 2,
		"/history/active": 3, "/history/active?limit=130": 1, "/history/tasks?status=polling&limit=7": 19,
	})
	slices.Reverse(entries)
	checkPages(entries, map[string]int{"/history/key/ci": 3, "/history/key/ci?limit=1000": 1, "/history/key/ci?limit=13": 10, "/history/key/ci?limit=129": 2})
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
		"from=1970-01-01&to=9999-12-31T23:59:59Z&cursor=" + cursorOf(history.Position{Ended: second, ID: orderID(45)}): 45,
	} {
		for _, path := range []string{"/history/site/6Le?limit=30&", "/history/tasks?status=solved&limit=1000&", "/history/active?limit=1000&"} {
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
	all := []history.Record{solvedRecord(0, "staging-signup", 0), solvedRecord(1, "checkout", 0), solvedRecord(2, "checkout", time.Second), solvedRecord(3, "/solve", 0), solvedRecord(4, "gone", 0),
		solvedRecord(5, "checkout", 0), solvedRecord(6, "checkout", 0), solvedRecord(7, "checkout", 0), solvedRecord(8, "checkout", 0), solvedRecord(9, "checkout", 21*time.Hour)}
	all[3].Type, all[2].Owner = captcha.Image, "other@example.com"
	for i, how := range []history.How{history.Failed, history.Refused, history.Lost, history.Discarded} {
		all[5+i].How = how
	}
	d.writeRecords(t, all...)
	one := `"orders":1,"solved":1,"discarded":0,"failed":0,"refused":0,"lost":0,"total_elapsed_ms":18250,"spent":0.00299,"unpriced":0}`
	const everything = `{"date":"2026-01-02","types":[` +
		`{"type":"image","orders":1,"solved":1,"discarded":0,"failed":0,"refused":0,"lost":0,"total_elapsed_ms":18250,"spent":0.00299,"unpriced":0},` +
		`{"type":"recaptcha_v2","orders":8,"solved":4,"discarded":1,"failed":1,"refused":1,"lost":1,"total_elapsed_ms":91250,"spent":0.01794,"unpriced":0}],"targets":[`
	signup := `{"target":"staging-signup","owner":"qa@example.com",` + one
	for _, c := range []struct{ key, date, want string }{
		{keyAll, "2026-01-02", everything +
			`{"target":"/solve","owner":"qa@example.com",` + one +
			`,{"target":"checkout","owner":"other@example.com",` + one +
			`,{"target":"checkout","owner":"qa@example.com","orders":5,"solved":1,"discarded":1,"failed":1,"refused":1,"lost":1,"total_elapsed_ms":36500,"spent":0.00897,"unpriced":0}` +
			`,{"target":"gone","owner":"qa@example.com",` + one + `,` + signup + `]}`},
		// A limited key gets no figures by type, because these would include other targets.
		{keyStaging, "2026-01-02", `{"date":"2026-01-02","types":null,"targets":[` + signup + `]}`},
		{keyStaging, "2026-01-03", `{"date":"2026-01-03","types":null,"targets":[]}`},
		{keyStatus, "2026-01-04", `{"date":"2026-01-04","types":[],"targets":[]}`},
	} {
		a := d.ask(t, "GET", "/history/day/"+c.date, bearer(c.key))
		if a.status != 200 || a.body != c.want+"\n" {
			t.Errorf("%s: %d\n%s\nwant\n%s", c.date, a.status, a.body, c.want)
		}
	}
}

// TestLimitedKeySeesItsHistory: on each route of the history, a key with globs sees only those
// targets of the configuration file that its globs include.
func TestLimitedKeySeesItsHistory(t *testing.T) {
	keys := allKeys()
	keys[2].Targets = []string{"other-*"} // for a key whose globs include no target, no store is queried
	d := start(t, sampleSet(keys...), nil, nil)
	for _, path := range []string{"/history/site/6Le", "/history/tasks?status=solved", "/history/active"} {
		d.ask(t, "GET", path, bearer(keyStatus)).check(t, "a key without targets", 200, `{"records":[]}`+"\n")
	}
	equal(t, "asked for", len(d.history.asked), 0)
	names := []string{"staging-login", "checkout", "staging-gone", "/solve", "staging-signup"}
	for n, name := range names {
		r := solvedRecord(n, name, time.Duration(n)*time.Second)
		failed := r
		failed.ID, failed.How = orderID(100+n), history.Failed
		d.writeRecords(t, r, failed)
		u := underWay(n, name, "", pool.Unknown, r.Placed)
		u.Submitted, u.Age = r.Submitted, 1234567*time.Microsecond
		d.buyer.underWay = append(d.buyer.underWay, u)
	}
	for path, ids := range map[string][]int{
		"/history/site/6Le": {104, 4, 100, 0}, "/history/tasks?status=error": {104, 100}, "/history/tasks?status=solved": {4, 0},
		"/history/active": {4, 0}, "/history/tasks?status=polling": {4, 0},
	} {
		a := d.ask(t, "GET", path, bearer(keyStaging))
		var got, want []string
		for _, r := range decodeAnswer[historyapi.List](t, a).Records {
			got = append(got, r.ID)
		}
		for _, n := range ids {
			want = append(want, orderID(n))
		}
		if !slices.Equal(got, want) || strings.Contains(a.body, "checkout") || strings.Contains(a.body, "/solve") {
			t.Errorf("%s: %s", path, a.body)
		}
		if a := d.ask(t, "GET", path, bearer(keyAll)); len(decodeAnswer[historyapi.List](t, a).Records) != map[bool]int{true: 10, false: 5}[strings.Contains(path, "site")] {
			t.Errorf("%s without limits: %s", path, a.body)
		}
	}
	if q := d.history.lastAsked(); q.Targets != nil && !slices.Equal(q.Targets, []string{"staging-login", "staging-signup"}) {
		t.Errorf("asked for %q", q.Targets)
	}
	// The parameter target selects one of the targets that the key sees.
	for _, c := range []struct {
		key, target string
		ids         []int
	}{
		{keyStaging, "staging-login", []int{0}}, {keyStaging, "checkout", nil}, {keyStaging, "no-such", nil}, {keyStaging, "/solve", nil},
		{keyAll, "checkout", []int{1}}, {keyAll, "staging-gone", []int{2}}, {keyAll, "/solve", []int{3}}, {keyAll, "no-such", nil},
	} {
		for _, status := range []string{"solved", "polling"} {
			a := d.ask(t, "GET", "/history/tasks?status="+status+"&target="+url.QueryEscape(c.target), bearer(c.key))
			var got []string
			for _, r := range decodeAnswer[historyapi.List](t, a).Records {
				got = append(got, r.ID)
			}
			if a.status != 200 || len(got) != len(c.ids) || len(got) > 0 && got[0] != orderID(c.ids[0]) {
				t.Errorf("%s %s of %s: %s", c.key, status, c.target, a.body)
			}
		}
	}
	d.ask(t, "GET", "/history/tasks?status=solved&target=", bearer(keyAll)).check(t, "no name", 400, "target must be the name of a target, or /solve")
	for n, name := range names {
		a := d.ask(t, "GET", "/history/solve/"+orderID(n), bearer(keyStaging))
		if n == 0 || n == 4 {
			equal(t, name, decodeAnswer[historyapi.Record](t, a).Target, name)
			continue
		}
		checkProblem(t, name, a, 404, kernel.CodeUnknownSolve, "")
	}
}

// keysOf returns the names in a JSON object in their order, including the names in embedded objects.
func keysOf(t *testing.T, object any) (keys []string) {
	t.Helper()
	text, err := json.Marshal(object)
	noError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	_, _ = decoder.Token()
	for decoder.More() {
		key, _ := decoder.Token()
		keys = append(keys, fmt.Sprint(key))
		var value any
		noError(t, decoder.Decode(&value))
	}
	return keys
}

// TestCSVHasTheColumnsOfTheJSON: the columns of the CSV are the fields of the JSON response. No
// cell is a spreadsheet formula.
func TestCSVHasTheColumnsOfTheJSON(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	r, formula := solvedRecord(1, "checkout", 0), solvedRecord(2, "checkout", 0)
	r.Owner, r.Code = "Quality, \"Assurance\"\r\nBerlin", "-1"
	formula.Sitekey, formula.Owner, formula.Code, formula.Task, formula.Pageurl = "=cmd|' /C calc'!A0", "+1", "@x", "\tx", "\rx"
	d.writeRecords(t, r, formula)
	d.buyer.underWay = []purchase.OrderInFlight{underWay(7, "", "-k", pool.Bought, day)}
	_, rows := d.csvRows(t, "/history/solve/"+r.ID)
	if want := []string{r.ID, "checkout", "Quality, \"Assurance\"\nBerlin", "recaptcha_v2", "6Le", "https://checkout.example.com/", "solver", "t-1", "solved", "solved", "'-1",
		"2026-01-02T03:03:45.678Z", "2026-01-02T03:03:47.428Z", "2026-01-02T03:04:00.678Z", "2026-01-02T03:04:05.678Z", "18250", "3", "poll", "0.00299", "cheapest"}; len(rows) != 2 ||
		!slices.Equal(rows[0], keysOf(t, historyapi.Record{Choice: "cheapest"})) || !slices.Equal(rows[1], want) {
		t.Errorf("%q", rows)
	}
	_, rows = d.csvRows(t, "/history/site/"+url.PathEscape(formula.Sitekey))
	if got := rows[1]; len(rows) != 2 || got[2] != "'+1" || got[4] != "'"+formula.Sitekey || got[5] != "'x" || got[7] != "'\tx" || got[10] != "'@x" {
		t.Errorf("%q", rows)
	}
	a, rows := d.csvRows(t, "/history/tasks?status=solved&limit=1")
	if len(rows) != 2 || rows[1][0] != formula.ID || !strings.Contains(a.header.Get("Link"), "cursor=") {
		t.Errorf("%v %q", a.header, rows)
	}
	_, rows = d.csvRows(t, "/history/active")
	if len(rows) != 2 || !slices.Equal(rows[0], keysOf(t, historyapi.ActiveRecord{})) || rows[1][0] != orderID(7) || rows[1][4] != "'-k" || rows[1][9] != "bought" {
		t.Errorf("%q", rows)
	}
	_, rows = d.csvRows(t, "/history/day/2026-01-02")
	wantColumns := append([]string{"date", "type", "target", "owner"}, keysOf(t, historyapi.DayFigures{})...)
	if len(rows) != 4 || !slices.Equal(rows[0], wantColumns) ||
		!reflect.DeepEqual(rows[1:], [][]string{
			{"2026-01-02", "recaptcha_v2", "", "", "2", "2", "0", "0", "0", "0", "36500", "0.00598", "0"},
			{"2026-01-02", "", "checkout", "'+1", "1", "1", "0", "0", "0", "0", "18250", "0.00299", "0"},
			{"2026-01-02", "", "checkout", "Quality, \"Assurance\"\nBerlin", "1", "1", "0", "0", "0", "0", "18250", "0.00299", "0"},
		}) {
		t.Errorf("%q", rows)
	}
	d.ask(t, "GET", "/history/active", "Accept: text/csv;q=0.5, application/json").check(t, "JSON is preferred", 200, `{"records":`)
}
