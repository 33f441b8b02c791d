package status

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
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

// The days of a target come from the stock.
func TestDaysOfATarget(t *testing.T) {
	store, err := pool.Open(pool.Options{
		Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial, Prefix: "days", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	id := newTarget("login").ID
	for range 3 {
		if _, err := store.Tokens.Take(t.Context(), pool.Request{ID: id}); err == nil {
			t.Fatal("a token that nobody bought")
		}
	}
	stock, err := store.Tokens.Look(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	got := targetDays(&stock, now)
	if want := []TargetDay{{Date: now.UTC().Format(time.DateOnly), Counts: Counts{Requests: 3, Misses: 3}}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := targetDays(&stock, now.AddDate(0, 0, 7)); got == nil || len(got) != 0 {
		t.Errorf("a week later: %#v", got)
	}
}

// Each counter of pool.Figures is in the document of a target and in the metrics, except counters
// that have another form there.
func TestEveryCounterIsShown(t *testing.T) {
	noMetric := map[string]bool{"Requests": true} // its outcomes are
	noMember := map[string]bool{"Refused": true, "Replays": true, "Unrecorded": true, "Spent": true}
	for field := range reflect.TypeFor[pool.Figures]().Fields() {
		const value = 7_000_000_000
		var figures pool.Figures
		reflect.ValueOf(&figures).Elem().FieldByIndex(field.Index).SetInt(value)
		if shown := metricShows(t, &figures, value) || metricShows(t, &figures, float64(money(value))); shown == noMetric[field.Name] {
			t.Errorf("%s in the metrics: %v", field.Name, shown)
		}
		document, err := json.Marshal(Target{Figures: figures})
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(document, &members); err != nil {
			t.Fatal(err)
		}
		shown := false
		for _, member := range members {
			shown = shown || member == float64(value)
		}
		if shown == noMember[field.Name] {
			t.Errorf("%s in the document: %v", field.Name, shown)
		}
	}
}

func metricShows(t *testing.T, figures *pool.Figures, value float64) bool {
	t.Helper()
	metrics := make(chan prometheus.Metric, 100)
	collectStock(metrics, "login", 0, 0, 0, figures)
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
		{At: day, Figures: pool.Figures{Requests: 9, Hits: 3, Waited: 2, Misses: 1, Bought: 4, Solved: 3}, Fresh: 2, Want: 3},
		{At: day.Add(time.Hour), Figures: pool.Figures{Requests: 1, Hits: 1}, Fresh: 1, Want: -1},
	}}
	c := NewCollector(Sources{Stock: stock, Log: slog.New(slog.DiscardHandler)})
	got := c.LastDay(t.Context(), "x")
	if got == nil || got.Counts != (Counts{Requests: 10, Hits: 4, Waited: 2, Misses: 1, Bought: 4, Solved: 3}) || got.HitRate != 0.5714 ||
		len(got.Hours) != 2 || got.Hours[1].At != stamp(day.Add(time.Hour)) || *got.Hours[1].Fresh != 1 || got.Hours[1].Want != nil {
		t.Errorf("%+v", got)
	}
	stock.before = func(context.Context) error { return redisdb.ErrDown }
	if got := c.LastDay(t.Context(), "x"); got != nil {
		t.Errorf("%+v without redis", got)
	}
}
