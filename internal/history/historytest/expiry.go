package historytest

import (
	"testing"
	"time"

	"poold/internal/history"
)

// OpenKeeping opens an empty store that keeps records for the duration keep and audit entries for the
// duration keepAudit. The store and the audit are closed when the test ends.
type OpenKeeping func(t testing.TB, keep, keepAudit time.Duration) (history.Store, history.Audit)

// TestKeepingTimes checks that records and audit entries have separate retention times. A store returns
// each record or entry until its retention time has passed, and not afterwards.
func TestKeepingTimes(t *testing.T, open OpenKeeping) {
	const short, long = 10 * time.Hour, 100 * time.Hour
	for name, times := range map[string]struct{ keep, keepAudit time.Duration }{
		"the audit for longer": {short, long}, "the records for longer": {long, short},
	} {
		t.Run(name, func(t *testing.T) { testKeepingTimes(t, open, times.keep, times.keepAudit) })
	}
}

// testKeepingTimes writes records and entries of two ages. The younger age is within both retention
// times. The older age is within only one of them.
func testKeepingTimes(t *testing.T, open OpenKeeping, keep, keepAudit time.Duration) {
	store, audit := open(t, keep, keepAudit)
	now := time.Now().UTC().Truncate(time.Millisecond)
	ages := []time.Duration{time.Minute, 50 * time.Hour} // the UTC day of the older record ended more than 24 hours ago
	var records []history.Record
	var entries []history.Entry
	for _, age := range ages {
		records = append(records, record(now.Add(-age), withSitekey("site")))
		entries = append(entries, entry(now.Add(-age)))
	}
	for range 2 { // a repeated write must not store expired records and entries again
		if err := store.Write(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		if err := audit.WriteEntries(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[bool]int{true: 2, false: 1}
	if page, err := store.Site(t.Context(), "site", history.Query{Limit: 10}); err != nil || len(page.Records) != kept[keep > ages[1]] {
		t.Errorf("%d records of the site, %v; want %d", len(page.Records), err, kept[keep > ages[1]])
	}
	if page, err := store.Tasks(t.Context(), history.StatusSolved, history.Query{Limit: 10}); err != nil || len(page.Records) != kept[keep > ages[1]] {
		t.Errorf("%d records of the status, %v; want %d", len(page.Records), err, kept[keep > ages[1]])
	}
	if page, err := audit.Entries(t.Context(), "key", history.Query{Limit: 10}); err != nil || len(page.List) != kept[keepAudit > ages[1]] {
		t.Errorf("%d entries, %v; want %d", len(page.List), err, kept[keepAudit > ages[1]])
	}
	for i, age := range ages {
		if _, found, err := store.Solve(t.Context(), records[i].ID); err != nil || found != (keep > age) {
			t.Errorf("a record of %v ago is found: %v, %v; it is kept for %v", age, found, err, keep)
		}
		keys, err := audit.KeyDay(t.Context(), now.Add(-age))
		if counted := keys["key"].HandedOut > 0; err != nil || counted != (keepAudit > age) {
			t.Errorf("the figures of a key have an entry of %v ago: %v, %v; it is kept for %v", age, counted, err, keepAudit)
		}
	}
}
