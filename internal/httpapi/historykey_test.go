package httpapi

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/testkit"
)

// entryOf returns the n-th hand-out or report of a test, for a key and a target. Its time is the given duration after
// the constant day.
func entryOf(n int, key, target string, action history.Action, later time.Duration) history.Handout {
	h := history.Handout{
		ID: fmt.Sprintf("%d-%03d", day.UnixMilli(), n), At: history.Time{Time: day.Add(later)}, Key: key, Action: action,
		Target: target, Order: orderID(n),
	}
	switch action {
	case history.Bought:
		h.Source, h.Price = "solve", 2_990_000
	case history.Taken:
		h.Source = "pool"
	}
	return h
}

func (d *daemon) addEntries(t *testing.T, entries ...history.Handout) {
	t.Helper()
	for _, h := range entries {
		testkit.NoError(t, d.history.Append(t.Context(), []history.Row{h.Row()}))
	}
}

// TestUsageByKeyAddsDays: the actions and the spending of each key are summed over the days of the query.
func TestUsageByKeyAddsDays(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	set := *d.config.Current()
	set.History.Audit, set.History.Keep = time.Since(day.Truncate(24*time.Hour).AddDate(0, 0, -10))+time.Hour, 24*time.Hour
	d.config.set.Store(&set)
	const back = -24 * time.Hour
	d.addEntries(t,
		entryOf(0, "ci", "checkout", history.Taken, 0), entryOf(1, "ci", "/solve", history.Bought, 0),
		entryOf(2, "ci", "/solve", history.Bought, back), entryOf(3, "ci", "checkout", history.Accepted, back),
		entryOf(4, "-", "checkout", history.Rejected, 3*back), entryOf(5, "-", "checkout", history.Taken, 4*back),
		entryOf(6, "ci", "checkout", history.Taken, 24*time.Hour),
	)
	d.golden(t, "keys.txt",
		[]string{"", "usage?by=key&from=2025-12-30&to=2026-01-03"},
		[]string{"", "usage?by=key&per=day&from=2025-12-30&to=2026-01-03"},
		[]string{"", "usage?by=key&from=2026-01-01&to=2026-01-03&per=day", "text/csv"},
	)
	testkit.DeepEqual(t, "days that are read for the last one", d.history.days.all()[4+4:],
		[]string{"2026-01-01", "2026-01-02"})
	d.ask(t, "GET", "/history/usage?by=key").check(t, "the last days", 200, `"lines":[]`)
}
