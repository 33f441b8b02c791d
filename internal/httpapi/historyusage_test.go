package httpapi

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/testkit"
)

// golden compares the answers of routes of the history with a file in testdata. With -update, golden writes the file. A
// request is a key, the path and, unless JSON is wanted, a media type.
func (d *daemon) golden(t *testing.T, name string, requests ...[]string) {
	t.Helper()
	var text strings.Builder
	for _, r := range requests {
		headers := []string{bearer(r[0])}
		for _, kind := range r[2:] {
			headers = append(headers, "Accept: "+kind)
		}
		a := d.ask(t, "GET", "/history/"+r[1], headers...)
		_, _ = fmt.Fprintf(&text, "%s %s: %d %s\n%s", strings.TrimPrefix(r[0], "canary-key-"), r[1], a.status,
			a.header.Get("Content-Type"), strings.NewReplacer(`{"date"`, "\n  {\"date\"", "\r", `\r`).Replace(a.body))
		testkit.Equal(t, r[1]+": caching", a.header.Get("Cache-Control"), "no-store")
		if a.status == 200 {
			testkit.Equal(t, r[1]+": Vary", a.header.Get("Vary"), "Accept")
		}
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
	d.golden(t, "usage.txt",
		[]string{keyAll, "usage?by=owner&from=2025-12-30&to=2026-01-03"},
		[]string{keyStatus, "usage?from=2025-12-30&to=2026-01-03&per=day&by=owner"},
		// The figures cover whole days, even if the parameters `from` and `to` are times within a day.
		[]string{keyAll, "usage?by=target&from=2026-01-01T23:59:59Z&to=2026-01-02T00:00:01Z"},
		[]string{keyAll, "usage?by=target&from=2026-01-01&to=2026-01-02&per=day"},
		[]string{keyAll, "usage?by=target&from=2025-12-31&to=2026-01-01"},
		[]string{keyAll, "usage?by=provider&from=2026-01-01&to=2026-01-03"},
		[]string{keyStaging, "usage?by=provider"},
		// A limited key sees the figures of its targets in the configuration file.
		[]string{keyStaging, "usage?by=owner&from=2025-12-20&to=2026-01-03"},
		[]string{keyStaging, "usage?by=target&from=2025-12-20&to=2026-01-03"},
		[]string{keyAll, "usage?by=target&from=2025-12-30&to=2025-12-31&per=day", "text/csv"},
	)
}
