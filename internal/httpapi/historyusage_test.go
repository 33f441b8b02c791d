package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
)

// addOrder writes the record of an order that ended the given number of days before the constant day.
func (d *daemon) addOrder(t *testing.T, n, back int, target, owner string, how history.Outcome) {
	t.Helper()
	r := solvedRecord(n, target, -time.Duration(back)*24*time.Hour)
	r.Owner, r.Outcome = owner, how
	d.writeRecords(t, r)
}

// keepFor sets history.keep. The history then begins a little earlier than the given number of days
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
	figures := func(orders, solved, discarded, failed, refused, lost, elapsed int, spent string) string {
		return fmt.Sprintf(`"orders":%d,"solved":%d,"discarded":%d,"failed":%d,"refused":%d,"lost":%d,"total_elapsed_ms":%d,"spent":%s,"unpriced":0`,
			orders, solved, discarded, failed, refused, lost, elapsed, spent)
	}
	line := func(date, target, owner, figures string) string {
		return fmt.Sprintf(`{"date":"%s","type":"","target":"%s","owner":"%s@example.com",%s}`, date, target, owner, figures)
	}
	solved, failed := figures(1, 1, 0, 0, 0, 0, 18250, "0.00299"), figures(1, 0, 0, 1, 0, 0, 0, "0")
	discarded, lost, refused := figures(1, 0, 1, 0, 0, 0, 18250, "0.00299"), figures(1, 0, 0, 0, 0, 1, 0, "0.00299"), figures(1, 0, 0, 0, 1, 0, 0, "0")
	for _, c := range []struct {
		key, query, by, first, last string
		lines                       []string
	}{
		{keyAll, "by=owner&from=2025-12-30&to=2026-01-03", "owner", "2025-12-30", "2026-01-02", []string{
			line("", "", "a", figures(3, 1, 1, 0, 0, 1, 36500, "0.00897")), line("", "", "b", figures(4, 2, 0, 1, 1, 0, 36500, "0.00598")),
		}},
		{keyStatus, "from=2025-12-30&to=2026-01-03&per=day&by=owner", "owner", "2025-12-30", "2026-01-02", []string{
			line("2025-12-30", "", "b", solved),
			line("2026-01-01", "", "a", figures(2, 1, 0, 0, 0, 1, 18250, "0.00598")), line("2026-01-01", "", "b", figures(2, 0, 0, 1, 1, 0, 0, "0")),
			line("2026-01-02", "", "a", discarded), line("2026-01-02", "", "b", solved),
		}},
		// The figures cover whole days, even if the parameters `from` and `to` are times within a day.
		{keyAll, "by=target&from=2026-01-01T23:59:59Z&to=2026-01-02T00:00:01Z", "target", "2026-01-01", "2026-01-02", []string{
			line("", "/solve", "b", refused), line("", "checkout", "a", figures(2, 0, 1, 0, 0, 1, 18250, "0.00598")), line("", "checkout", "b", solved),
			line("", "staging-login", "a", solved), line("", "staging-login", "b", failed),
		}},
		{keyAll, "by=target&from=2026-01-01&to=2026-01-02&per=day", "target", "2026-01-01", "2026-01-01", []string{
			line("2026-01-01", "/solve", "b", refused), line("2026-01-01", "checkout", "a", lost),
			line("2026-01-01", "staging-login", "a", solved), line("2026-01-01", "staging-login", "b", failed),
		}},
		{keyAll, "by=target&from=2025-12-31&to=2026-01-01", "target", "2025-12-31", "2025-12-31", nil},
		// A limited key sees the figures of those of its targets that are in the configuration file.
		{keyStaging, "by=owner&from=2025-12-20&to=2026-01-03", "owner", "2025-12-20", "2026-01-02", []string{line("", "", "a", solved), line("", "", "b", failed)}},
		{keyStaging, "by=target&from=2025-12-20&to=2026-01-03", "target", "2025-12-20", "2026-01-02", []string{line("", "staging-login", "a", solved), line("", "staging-login", "b", failed)}},
	} {
		want := fmt.Sprintf(`{"by":"%s","first":"%s","last":"%s","lines":[%s]}`+"\n", c.by, c.first, c.last, strings.Join(c.lines, ","))
		if a := d.ask(t, "GET", "/history/usage?"+c.query, bearer(c.key)); a.status != 200 || a.body != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", c.query, a.status, a.body, want)
		}
	}

	_, rows := d.csvRows(t, "/history/usage?by=target&from=2025-12-30&to=2025-12-31&per=day", bearer(keyAll))
	if len(rows) != 2 || !slices.Equal(rows[0], keysOf(t, UsageLine{})) ||
		!slices.Equal(rows[1], []string{"2025-12-30", "", "staging-gone", "b@example.com", "1", "1", "0", "0", "0", "0", "18250", "0.00299", "0"}) {
		t.Errorf("%q", rows)
	}
}
