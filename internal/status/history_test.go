package status

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// How the history is written is a notice and metrics; nothing of it without one.
func TestHistory(t *testing.T) { synctest.Test(t, testHistory) }

func testHistory(t *testing.T) {
	names := []string{"poold_history_up", "poold_history_records_total", "poold_history_unrecorded_total"}
	s := busySources()
	snapshot := NewCollector(s).Snapshot(t.Context())
	says := func(notices []string) bool {
		return slices.ContainsFunc(notices, func(n string) bool {
			return strings.HasPrefix(n, "The history cannot be written: ") && strings.Contains(n, "connection refused")
		})
	}
	if !says(snapshot.Document.Notices) {
		t.Errorf("notices %q", snapshot.Document.Notices)
	}
	const want = `
# HELP poold_history_records_total Ends of orders that this replica sent to the history, by whether it took them: sent, dropped.
# TYPE poold_history_records_total counter
poold_history_records_total{outcome="dropped"} 4
poold_history_records_total{outcome="sent"} 120
# HELP poold_history_unrecorded_total Ends of orders that were not kept for the history, because too many waited; absent where there were none. Counted over all replicas, as on /status: take the maximum over instances, not the sum.
# TYPE poold_history_unrecorded_total counter
poold_history_unrecorded_total{target="/solve"} 20
poold_history_unrecorded_total{target="staging-login"} 3
# HELP poold_history_up 1 where the history can be written, as far as this replica knows; absent where none is kept.
# TYPE poold_history_up gauge
poold_history_up 0
`
	if err := testutil.CollectAndCompare(snapshot, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if part := snapshot.Document.Only(func(string) bool { return true }); part.History != nil {
		t.Errorf("a key that is limited sees %+v", part.History)
	}

	s.History = fixedHealth{}
	if d := NewCollector(s).Snapshot(t.Context()).Document; says(d.Notices) || d.History == nil || !d.History.OK {
		t.Errorf("%q, %+v", d.Notices, d.History)
	}
	s.History = nil
	if d := NewCollector(s).Snapshot(t.Context()).Document; d.History != nil {
		t.Errorf("%+v", d.History)
	}
}
