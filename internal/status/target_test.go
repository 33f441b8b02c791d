package status

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/targets"
)

// TestMarks: a target gets the right marks. Few reports are not sufficient for a mark.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		failing  bool
		verdicts string // + accepted, - rejected
		want     string
	}{
		{false, "", ""}, {false, "----", ""}, {false, "-----", "mostly_rejected"}, {false, "+--+-", "mostly_rejected"},
		{false, "+-+-+", ""}, {false, "---+++", ""}, {false, "++++-----", "mostly_rejected"}, {true, "+++++", "failing"}, {true, "-----", "failing mostly_rejected"},
	} {
		var verdicts []bool
		for _, v := range c.verdicts {
			verdicts = append(verdicts, v == '+')
		}
		if got := marks(refill.Status{Failing: c.failing}, verdicts); got == nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestNotices(t *testing.T) {
	for _, c := range []struct {
		api      targets.API
		embedded bool
		want     string
	}{
		{targets.APISimulated, true, "simulated"},
		{targets.APISimulated, false, "simulated"},
		{targets.APILegacy, true, "embedded"},
		{targets.APILegacy, false, ""},
	} {
		set := newSet()
		set.Providers[0].API = c.api
		if c.embedded {
			set.Redis.URL = "embedded"
		}
		notices := strings.Join(waysOfRunning(set, []purchase.Status{{Name: "loud"}}), "\n")
		if !strings.Contains(notices, c.want) || (notices == "") != (c.want == "") || strings.Count(notices, "\n") > 0 {
			t.Errorf("%+v: %q", c, notices)
		}
	}
}

// Each counter of pool.Counters is in the document of a target and in the metrics, except counters
// that have another form there.
func TestEveryCounterIsShown(t *testing.T) {
	noMetric := map[string]bool{"Left": true, "Refused": true}
	noMember := map[string]bool{"Left": true, "Refused": true, "Replays": true, "Declined": true, "Spent": true}
	for field := range reflect.TypeFor[pool.Counters]().Fields() {
		const value = 7_000_000_000
		var counters pool.Counters
		reflect.ValueOf(&counters).Elem().FieldByIndex(field.Index).SetInt(value)
		if shown := metricShows(t, &counters, value) || metricShows(t, &counters, float64(money(value))); shown == noMetric[field.Name] {
			t.Errorf("%s in the metrics: %v", field.Name, shown)
		}
		document, err := json.Marshal(Target{Counters: countersOf(&counters, 0)})
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(document, &members); err != nil {
			t.Fatal(err)
		}
		shown := false
		for name, member := range members {
			shown = shown || member == float64(value) && name != "requests"
		}
		if shown == noMember[field.Name] {
			t.Errorf("%s in the document: %v", field.Name, shown)
		}
	}
}

func metricShows(t *testing.T, counters *pool.Counters, value float64) bool {
	t.Helper()
	metrics := make(chan prometheus.Metric, 100)
	collectStock(metrics, "login", 0, 0, 0, counters)
	close(metrics)
	for metric := range metrics {
		var sample dto.Metric
		if err := metric.Write(&sample); err != nil {
			t.Fatal(err)
		}
		if sample.GetCounter().GetValue() == value {
			return true
		}
	}
	return false
}

// The counts of the last day are summed up. If Redis is down, there are no counts.
func TestLastDay(t *testing.T) {
	stock := &fixedStock{hours: []pool.Period{
		{At: day, Counters: pool.Counters{Hits: 3, Waited: 2, Missed: 1, Left: 3, Bought: 4, Solved: 3}},
		{At: day.Add(time.Hour), Counters: pool.Counters{Hits: 1}},
	}}
	c := NewCollector(Sources{Stock: stock, Log: slog.New(slog.DiscardHandler)})
	got := c.LastDay(t.Context(), "x")
	if got == nil || got.Counts != (Counts{Requests: 10, Hits: 4, Waited: 2, Misses: 1, Bought: 4, Solved: 3}) || got.HitRate != 0.5714 ||
		len(got.Hours) != 2 || got.Hours[1] != (TargetPeriod{At: stamp(day.Add(time.Hour)), Counts: Counts{Requests: 1, Hits: 1}}) {
		t.Errorf("%+v", got)
	}
	stock.before = func(context.Context) error { return redisdb.ErrDown }
	if got := c.LastDay(t.Context(), "x"); got != nil {
		t.Errorf("%+v without redis", got)
	}
}
