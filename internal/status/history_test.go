package status

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The health of the history is in the document, the notices and the metrics, unless no history is kept.
func TestHistoryHealthIsShown(t *testing.T) { synctest.Test(t, testHistoryHealthIsShown) }

func testHistoryHealthIsShown(t *testing.T) {
	names := []string{"poold_history_up", "poold_history_records_total", "poold_history_unrecorded_total"}
	s := busySources()
	snapshot := NewCollector(s).Snapshot(t.Context())
	says := func(notices []string) bool {
		return slices.ContainsFunc(notices, func(n string) bool {
			return strings.Contains(n, "history cannot be written (") && strings.Contains(n, "connection refused")
		})
	}
	if !says(snapshot.Document.Notices) {
		t.Errorf("notices %q", snapshot.Document.Notices)
	}
	const want = `
# HELP poold_history_records_total Ended orders that this replica sent to the history, by outcome: sent, dropped.
# TYPE poold_history_records_total counter
poold_history_records_total{outcome="dropped"} 4
poold_history_records_total{outcome="sent"} 120
# HELP poold_history_unrecorded_total Ended orders of all targets (*) that the history lacks, because too many waited; absent if there are none. Counted over all replicas, as on /status: take the maximum over instances, not the sum.
# TYPE poold_history_unrecorded_total counter
poold_history_unrecorded_total{target="*"} 23
# HELP poold_history_up 1 if this replica can write the history; absent without a history.
# TYPE poold_history_up gauge
poold_history_up 0
`
	if err := testutil.CollectAndCompare(snapshot, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if part := snapshot.Document.Part(func(string) bool { return true }); part.History != nil {
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

// The health of the audit is in the document, the notices and the metrics. The notice about dropped
// entries stays.
func TestAuditHealthIsShown(t *testing.T) { synctest.Test(t, testAuditHealthIsShown) }

func testAuditHealthIsShown(t *testing.T) {
	s := busySources()
	const metrics = `
# HELP poold_audit_dropped_total Audit entries that this replica dropped, because too many waited or the store refused them; absent without an audit.
# TYPE poold_audit_dropped_total counter
poold_audit_dropped_total 1
# HELP poold_audit_entries_total Audit entries that this replica wrote; absent without an audit.
# TYPE poold_audit_entries_total counter
poold_audit_entries_total 20
`
	const cannot, dropped = "The audit cannot be written (gone): its entries wait", "The audit is incomplete: entries that this replica dropped since its start: 1;"
	for _, c := range []struct {
		health  *fixedAudit // nil = no audit is kept
		want    *Audit
		says    []string // beginnings of notices about the audit
		metrics string
	}{
		{nil, nil, nil, ""},
		{&fixedAudit{Queued: 3, Written: 20}, &Audit{OK: true, Queued: 3, Written: 20}, nil, strings.Replace(metrics, "dropped_total 1", "dropped_total 0", 1)},
		{&fixedAudit{Written: 20, Dropped: 1}, &Audit{OK: true, Written: 20, Dropped: 1}, []string{dropped}, metrics},
		{&fixedAudit{Down: "gone", Queued: 3, Written: 20, Dropped: 1}, &Audit{Reason: "gone", Queued: 3, Written: 20, Dropped: 1},
			[]string{cannot, dropped}, metrics},
		{&fixedAudit{Down: "gone"}, &Audit{Reason: "gone"}, []string{cannot}, strings.NewReplacer("total 1", "total 0", "total 20", "total 0").Replace(metrics)},
	} {
		s.Audit = nil
		if c.health != nil {
			s.Audit = *c.health
		}
		snapshot := NewCollector(s).Snapshot(t.Context())
		if got := snapshot.Document.Audit; (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v: %+v", c.want, got)
		}
		says := slices.DeleteFunc(slices.Clone(snapshot.Document.Notices), func(n string) bool { return !strings.Contains(n, "audit") })
		if !slices.EqualFunc(says, c.says, strings.HasPrefix) {
			t.Errorf("%+v: notices %q, want %q", c.want, says, c.says)
		}
		if err := testutil.CollectAndCompare(snapshot, strings.NewReader(c.metrics), "poold_audit_entries_total", "poold_audit_dropped_total"); err != nil {
			t.Errorf("%+v: %v", c.want, err)
		}
		if part := snapshot.Document.Part(func(string) bool { return true }); part.Audit != nil {
			t.Errorf("a key that is limited sees %+v", part.Audit)
		}
	}
}
