package httpapi

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
	"poold/internal/targets"
)

// entryOf is entry n of a test, of a key and a target, some time after day.
func entryOf(n int, key, target string, action history.Action, later time.Duration) history.Entry {
	e := history.Entry{
		ID: strings.Repeat("A", 24) + string(rune('A'+n/26)) + string(rune('A'+n%26)), At: day.Add(later),
		Key: key, Action: action, Target: target, Token: fmt.Sprintf("tok%d.sig", n),
	}
	switch action {
	case history.Bought:
		e.Source, e.Price = "solve", 2_990_000
	case history.Taken:
		e.Source = "pool"
	}
	return e
}

// note keeps entries.
func (d *daemon) note(entries ...history.Entry) {
	for _, e := range entries {
		d.audit.Note(e)
	}
}

// TestEntriesOfAKey: the actions of a key, newest first; without actions the list is
// empty.
func TestEntriesOfAKey(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	picture := entryOf(1, "all", "/solve", history.Bought, 0)
	picture.Image = "sha256:" + strings.Repeat("ab", 32) + ", 25 bytes"
	d.note(entryOf(0, "all", "checkout", history.Taken, 0), picture, entryOf(2, "all", "checkout", history.Rejected, time.Second),
		entryOf(3, "gone@2025", "staging-gone", history.Accepted, 0), entryOf(4, "-", "checkout", history.Taken, 0))
	line := func(n int, at, key, action, target, source, image, price string) string {
		return fmt.Sprintf(`{"id":"%s","at":"2026-01-02T03:04:%sZ","key":"%s","action":"%s","target":"%s","token_id":"tok%d.sig","source":"%s","image":"%s","price":%s}`,
			entryOf(n, "", "", "", 0).ID, at, key, action, target, n, source, image, price)
	}
	for name, want := range map[string]string{
		"all": line(2, "06.678", "all", "rejected", "checkout", "", "", "0") + "," + line(1, "05.678", "all", "bought", "/solve", "solve", picture.Image, "0.00299") + "," +
			line(0, "05.678", "all", "taken", "checkout", "pool", "", "0"),
		"gone%402025": line(3, "05.678", "gone@2025", "accepted", "staging-gone", "", "", "0"),
		"-":           line(4, "05.678", "-", "taken", "checkout", "pool", "", "0"),
		"%61ll?to=2026-01-02T03:04:06Z&limit=1&cursor=" + cursorOf(history.Position{Ended: day, ID: picture.ID}): line(0, "05.678", "all", "taken", "checkout", "pool", "", "0"),
		"all?from=2026-01-02T03:04:06Z": line(2, "06.678", "all", "rejected", "checkout", "", "", "0"),
		"All":                           "", "looker": "", "all.": "", strings.Repeat("k", 63): "",
	} {
		if a := d.ask(t, "GET", "/history/key/"+name, bearer(keyAll)); a.status != 200 || a.body != `{"entries":[`+want+"]}\n" {
			t.Errorf("%s: %d\n%s\nwant\n%s", name, a.status, a.body, want)
		}
	}
	a := d.ask(t, "GET", "/history/key/all?limit=2", bearer(keyAll), "Accept: text/csv")
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || len(rows) != 3 || !slices.Equal(rows[0], keysOf(t, historyapi.AuditEntry{})) || !strings.Contains(a.header.Get("Link"), "cursor=") ||
		!slices.Equal(rows[2], []string{picture.ID, "2026-01-02T03:04:05.678Z", "all", "bought", "/solve", "tok1.sig", "solve", picture.Image, "0.00299"}) {
		t.Errorf("%v %v: %q", err, a.header, rows)
	}
}

// TestPagesOfEntries: page after page shows each entry once, newest first, also where many
// are of one millisecond.
func TestPagesOfEntries(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	var want []string
	for n := range 130 {
		e := entryOf(n, "ci", "checkout", history.Taken, time.Duration(n/40)*time.Millisecond)
		d.note(e)
		want = append(want, e.ID)
	}
	slices.Reverse(want)
	for query, pages := range map[string]int{"": 3, "?limit=1000": 1, "?limit=13": 10, "?limit=129": 2} {
		var got []string
		next, n := "/history/key/ci"+query, 0
		for next != "" && n < 20 {
			a := d.ask(t, "GET", next)
			list := decoded[historyapi.AuditList](t, a)
			for _, e := range list.Entries {
				got = append(got, e.ID)
			}
			n++
			next = ""
			if link, _ := url.Parse(strings.TrimSuffix(strings.TrimPrefix(a.header.Get("Link"), "<"), `>; rel="next"`)); list.Next != "" {
				if link.Query().Get("cursor") != list.Next {
					t.Fatalf("next %q, %v", list.Next, a.header)
				}
				next = "/history/key/ci" + link.String()
			}
		}
		if !slices.Equal(got, want) || n != pages {
			t.Errorf("%s: %d pages of %q", query, n, got)
		}
	}
}

// TestWhoSeesTheAudit: only admins see the audit. A key that is limited to some targets
// sees the actions on tokens of these; the figures by key cover all targets.
func TestWhoSeesTheAudit(t *testing.T) {
	keys := append(allKeys(), targets.Key{Name: "nothing", SHA256: allKeys()[2].SHA256, Scopes: allKeys()[0].Scopes, Targets: []string{"other-*"}})
	keys[2].SHA256 = [32]byte{1}
	set := sampleSet(keys...)
	d := start(t, set, nil, nil)
	for n, target := range []string{"staging-login", "checkout", "/solve", "staging-gone", "staging-signup"} {
		d.note(entryOf(n, "all", target, history.Taken, 0))
	}
	seen := func(key string) (list []string) {
		t.Helper()
		for _, e := range decoded[historyapi.AuditList](t, d.ask(t, "GET", "/history/key/all", bearer(key))).Entries {
			list = append(list, e.Target)
		}
		return list
	}
	if got := seen(keyAll); len(got) != 5 {
		t.Errorf("all: %q", got)
	}
	if got := seen(keyStaging); !slices.Equal(got, []string{"staging-signup", "staging-login"}) {
		t.Errorf("staging: %q", got)
	}
	asked := len(d.audit.asked)
	if got := seen(keyStatus); len(got) > 0 || len(d.audit.asked) > asked {
		t.Errorf("who may see no target of the file: %q, asked for %+v", got, d.audit.asked[asked:])
	}
	for _, key := range []string{keyStaging, keyStatus} {
		checkProblem(t, key, d.ask(t, "GET", "/history/usage?by=key", bearer(key)), 403, kernel.CodeForbidden, "")
	}

	d.config.set.Store(sampleSet(allKeys()...))
	checkProblem(t, "without the scope admin", d.ask(t, "GET", "/history/key/all", bearer(keyStatus)), 403, kernel.CodeForbidden, "")
	d.ask(t, "GET", "/history/usage?by=key", bearer(keyStatus)).has(t, "the figures", 200)
	checkProblem(t, "without a key", d.ask(t, "GET", "/history/key/all"), 401, kernel.CodeUnauthorized, "")
}

// TestTheAuditIsAskedWrongly: hostile names and malformed parameters do not reach the
// store.
func TestTheAuditIsAskedWrongly(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, name := range []string{
		"%00", "a%0Ab", "%ff", "a%2Fb", "%2E%2E", "%20", "a%20b", "'%20or%201=1--", "a%7Cb", "%2A", "ä", "--", "-a", ".a", "_", "%25", strings.Repeat("k", 64), "a%0A",
	} {
		checkProblem(t, name, d.ask(t, "GET", "/history/key/"+name), 400, kernel.CodeBadRequest, "", "a key's name is 1 to 63 letters")
	}
	for path, detail := range map[string]string{
		"/history/key/ci?limit=0": "a whole number from 1 to 1000", "/history/key/ci?from=x": "from must be", "/history/key/ci?to=1969-12-31": "to must be",
		"/history/key/ci?cursor=x": "cursor must be", "/history/key/ci?by=key": "a parameter other than from, to, limit, cursor",
		"/history/key/ci?cursor=" + cursorOf(history.Position{Ended: day, ID: "not-an-entry"}): "cursor must be",
		"/history/usage?by=keys": "by must be owner, target or key", "/history/usage?by=key&per=week": "per must be day", "/history/usage?by=key&limit=5": "other than by, per, from, to",
		"/history/usage?by=key&from=2026-01-02&to=2026-01-03": "the audit keeps 720 hours", "/history/usage?by=key&from=2100-01-01": "from must not be after today",
	} {
		checkProblem(t, path, d.ask(t, "GET", path), 400, kernel.CodeBadRequest, "", detail)
	}
	if len(d.audit.asked)+len(d.audit.days) > 0 {
		t.Errorf("asked for %q, %q", d.audit.keys, d.audit.days)
	}
}

// TestUsageByKey: what keys did, on all days together or on each.
func TestUsageByKey(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	set := *d.config.Current()
	set.History.Audit, set.History.Keep = time.Since(day.Truncate(24*time.Hour).AddDate(0, 0, -10))+time.Hour, 24*time.Hour
	d.config.set.Store(&set)
	const back = -24 * time.Hour
	d.note(
		entryOf(0, "ci", "checkout", history.Taken, 0), entryOf(1, "ci", "/solve", history.Bought, 0), entryOf(2, "ci", "/solve", history.Bought, back),
		entryOf(3, "ci", "checkout", history.Accepted, back), entryOf(4, "-", "checkout", history.Rejected, 3*back), entryOf(5, "-", "checkout", history.Taken, 4*back),
		entryOf(6, "ci", "checkout", history.Taken, 24*time.Hour),
	)
	line := func(date, key string, out, accepted, rejected, bought int, spent string) string {
		return fmt.Sprintf(`{"date":"%s","key":"%s","handed_out":%d,"accepted":%d,"rejected":%d,"bought":%d,"spent":%s,"unpriced":0}`, date, key, out, accepted, rejected, bought, spent)
	}
	for query, lines := range map[string][]string{
		"from=2025-12-30&to=2026-01-03": {line("", "-", 0, 0, 1, 0, "0"), line("", "ci", 3, 1, 0, 2, "0.00598")},
		"per=day&from=2025-12-30&to=2026-01-03": {
			line("2025-12-30", "-", 0, 0, 1, 0, "0"), line("2026-01-01", "ci", 1, 1, 0, 1, "0.00299"), line("2026-01-02", "ci", 2, 0, 0, 1, "0.00299")},
	} {
		want := `{"by":"key","first":"2025-12-30","last":"2026-01-02","lines":[` + strings.Join(lines, ",") + "]}\n"
		if a := d.ask(t, "GET", "/history/usage?by=key&"+query); a.status != 200 || a.body != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", query, a.status, a.body, want)
		}
	}
	if got := decoded[historyapi.KeyUsage](t, d.ask(t, "GET", "/history/usage?by=key")); got.Lines == nil || len(got.Lines) > 0 {
		t.Errorf("of the last days: %+v", got)
	}
	d.audit.days = nil
	a := d.ask(t, "GET", "/history/usage?by=key&from=2026-01-01&to=2026-01-03&per=day", "Accept: text/csv")
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || len(rows) != 3 || !slices.Equal(rows[0], keysOf(t, historyapi.KeyUsageLine{})) || !slices.Equal(rows[2], []string{"2026-01-02", "ci", "2", "0", "0", "1", "0.00299", "0"}) {
		t.Errorf("%v: %s", err, a.body)
	}
	if !slices.Equal(d.audit.days, []string{"2026-01-01", "2026-01-02"}) {
		t.Errorf("asked for %q", d.audit.days)
	}
}

// TestTheAuditIsAway: the answers are as for the history.
func TestTheAuditIsAway(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, c := range []struct {
		err    error
		status int
		code   kernel.Code
		detail string
	}{
		{fmt.Errorf("%w: no answer in time", history.ErrDown), 503, kernel.CodeStoreDown, "the store does not answer: no answer in time"},
		{errors.New("canary-cause"), 500, kernel.CodeInternal, "the daemon's log says more"},
	} {
		d.audit.down = c.err
		for _, path := range []string{"/history/key/ci", "/history/usage?by=key"} {
			checkProblem(t, path, d.ask(t, "GET", path), c.status, c.code, "", `"detail":"`+c.detail+`"`)
		}
	}
}

// TestNoAuditIsKept: the answer names the setting.
func TestNoAuditIsKept(t *testing.T) {
	for _, c := range []struct {
		kept historyapi.Store
		code kernel.Code
		says string
	}{
		{nil, kernel.CodeNoHistory, "`backend: none`"},
		{&memoryHistory{}, kernel.CodeNoAudit, "`audit: 0s` in its section history"},
	} {
		s := quietServer(true, func(deps *Deps) { deps.History = c.kept })
		for _, path := range []string{"/history/key/ci", "/history/key/-", "/history/usage?by=key", "/history/usage?by=key&from=1970-01-01"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Authorization", "Bearer "+keyAll)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != 404 || !strings.Contains(w.Body.String(), `"code":"`+string(c.code)+`"`) || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
}
