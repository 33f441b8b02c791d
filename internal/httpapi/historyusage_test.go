package httpapi

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/testkit"
)

// golden compares the answers of routes of the history with a file in testdata. With -update, golden writes the file.
func (d *daemon) golden(t *testing.T, name string, requests [][2]string) {
	t.Helper()
	var text strings.Builder
	for _, r := range requests {
		a := d.ask(t, "GET", "/history/"+r[1], bearer(r[0]))
		_, _ = fmt.Fprintf(&text, "%s %s: %d\n%s", strings.TrimPrefix(r[0], "canary-key-"), r[1], a.status,
			strings.ReplaceAll(a.body, `{"date"`, "\n  {\"date\""))
	}
	testkit.Published(t, filepath.Join("testdata", name), text.String())
}

// addOrder writes the record of an order that ended the given number of days before the constant day.
func (d *daemon) addOrder(t *testing.T, n, back int, target, owner string, how history.Outcome) {
	t.Helper()
	r := solvedRecord(n, target, -time.Duration(back)*24*time.Hour)
	r.Owner, r.Outcome = owner, how
	d.writeRecords(t, r)
}

// keepFor sets history.keep, so that the history begins an hour earlier than the given number of days
// before the constant day.
func (d *daemon) keepFor(days int) {
	set := *d.config.Current()
	set.History.Keep = time.Since(day.Truncate(24*time.Hour).AddDate(0, 0, -days)) + time.Hour
	d.config.set.Store(&set)
}

// TestUsageAddsOrdersByOwnerOrTarget: the figures of orders are summed for each owner or for each
// target, either over all days or for each day.
func TestUsageAddsOrdersByOwnerOrTarget(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.keepFor(30)
	d.addOrder(t, 0, 0, "checkout", "b@example.com", history.Solved)
	d.addOrder(t, 1, 0, "checkout", "a@example.com", history.Discarded)
	d.addOrder(t, 2, 1, "checkout", "a@example.com", history.Lost)
	d.addOrder(t, 3, 1, "staging-login", "b@example.com", history.Failed)
	d.addOrder(t, 4, 1, "/solve", "b@example.com", history.Refused)
	d.addOrder(t, 5, 1, "staging-login", "a@example.com", history.Solved)
	d.addOrder(t, 6, 3, "staging-gone", "b@example.com", history.Solved)
	d.addOrder(t, 7, 4, "checkout", "b@example.com", history.Solved)
	d.golden(t, "usage.txt", [][2]string{
		{keyAll, "usage?by=owner&from=2025-12-30&to=2026-01-03"},
		{keyStatus, "usage?from=2025-12-30&to=2026-01-03&per=day&by=owner"},
		// The figures cover whole days, even if the parameters `from` and `to` are times within a day.
		{keyAll, "usage?by=target&from=2026-01-01T23:59:59Z&to=2026-01-02T00:00:01Z"},
		{keyAll, "usage?by=target&from=2026-01-01&to=2026-01-02&per=day"},
		{keyAll, "usage?by=target&from=2025-12-31&to=2026-01-01"},
		{keyAll, "usage?by=provider&from=2026-01-01&to=2026-01-03"},
		{keyStaging, "usage?by=provider"},
		// A limited key sees the figures of its targets in the configuration file.
		{keyStaging, "usage?by=owner&from=2025-12-20&to=2026-01-03"},
		{keyStaging, "usage?by=target&from=2025-12-20&to=2026-01-03"},
	})
	_, rows := d.csvRows(t, "/history/usage?by=target&from=2025-12-30&to=2025-12-31&per=day", bearer(keyAll))
	if len(rows) != 2 || !slices.Equal(rows[0], keysOf(t, UsageLine{})) ||
		!slices.Equal(rows[1], []string{"2025-12-30", "", "staging-gone", "b@example.com", "", "1", "1", "0", "0", "0", "0",
			"18250", "0.00299", "0"}) {
		t.Errorf("%q", rows)
	}
}
