package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
	"poold/internal/targets"
)

// entryOf returns the n-th audit entry of a test, for a key and a target. The time of the entry is
// the given duration after the constant day.
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

func (d *daemon) addEntries(entries ...history.Entry) {
	for _, e := range entries {
		d.audit.Note(e)
	}
}

// TestEntriesOfAKeyAreNewestFirst: the actions of a key are listed newest first. Without actions
// the list is empty.
func TestEntriesOfAKeyAreNewestFirst(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	picture := entryOf(1, "all", "/solve", history.Bought, 0)
	picture.Image = "sha256:" + strings.Repeat("ab", 32) + ", 25 bytes"
	d.addEntries(entryOf(0, "all", "checkout", history.Taken, 0), picture, entryOf(2, "all", "checkout", history.Rejected, time.Second),
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
	a, rows := d.csvRows(t, "/history/key/all?limit=2", bearer(keyAll))
	if len(rows) != 3 || !slices.Equal(rows[0], keysOf(t, historyapi.AuditEntry{})) || !strings.Contains(a.header.Get("Link"), "cursor=") ||
		!slices.Equal(rows[2], []string{picture.ID, "2026-01-02T03:04:05.678Z", "all", "bought", "/solve", "tok1.sig", "solve", picture.Image, "0.00299"}) {
		t.Errorf("%v: %q", a.header, rows)
	}
}

// TestAuditNeedsAdmin: only admins see the audit. An admin key with globs sees the actions on its
// targets. Such a key does not see the figures by key, because these cover all targets.
func TestAuditNeedsAdmin(t *testing.T) {
	keys := append(allKeys(), targets.Key{Name: "nothing", SHA256: allKeys()[2].SHA256, Scopes: allKeys()[0].Scopes, Targets: []string{"other-*"}})
	keys[2].SHA256 = [32]byte{1}
	set := sampleSet(keys...)
	d := start(t, set, nil, nil)
	for n, target := range []string{"staging-login", "checkout", "/solve", "staging-gone", "staging-signup"} {
		d.addEntries(entryOf(n, "all", target, history.Taken, 0))
	}
	seen := func(key string) (list []string) {
		t.Helper()
		for _, e := range decodeAnswer[historyapi.AuditList](t, d.ask(t, "GET", "/history/key/all", bearer(key))).Entries {
			list = append(list, e.Target)
		}
		return list
	}
	equal(t, "all", len(seen(keyAll)), 5)
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
	d.ask(t, "GET", "/history/usage?by=key", bearer(keyStatus)).check(t, "the figures", 200)
	checkProblem(t, "without a key", d.ask(t, "GET", "/history/key/all"), 401, kernel.CodeUnauthorized, "")
}

func TestUsageByKeyAddsDays(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	set := *d.config.Current()
	set.History.Audit, set.History.Keep = time.Since(day.Truncate(24*time.Hour).AddDate(0, 0, -10))+time.Hour, 24*time.Hour
	d.config.set.Store(&set)
	const back = -24 * time.Hour
	d.addEntries(
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
	if got := decodeAnswer[historyapi.KeyUsage](t, d.ask(t, "GET", "/history/usage?by=key")); got.Lines == nil || len(got.Lines) > 0 {
		t.Errorf("of the last days: %+v", got)
	}
	d.audit.days = nil
	_, rows := d.csvRows(t, "/history/usage?by=key&from=2026-01-01&to=2026-01-03&per=day")
	if len(rows) != 3 || !slices.Equal(rows[0], keysOf(t, historyapi.KeyUsageLine{})) || !slices.Equal(rows[2], []string{"2026-01-02", "ci", "2", "0", "0", "1", "0.00299", "0"}) {
		t.Errorf("%q", rows)
	}
	if !slices.Equal(d.audit.days, []string{"2026-01-01", "2026-01-02"}) {
		t.Errorf("asked for %q", d.audit.days)
	}
}
