package status

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/testkit"
)

// metricsOf returns the metrics of the current document. The keys are the names and the values of the labels, by the
// names of the labels, but the target comes first.
func metricsOf(t *testing.T, c *Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	testkit.NoError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name, labels := strings.TrimPrefix(family.GetName(), "poold_"), ""
			for _, label := range metric.GetLabel() {
				if label.GetName() == "target" {
					name += " " + label.GetValue()
				} else {
					labels += " " + label.GetValue()
				}
			}
			found[name+labels] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return found
}

// The metrics of the whole document equal the golden file. All guests together have the metrics of one target.
func TestMetrics(t *testing.T) {
	var text strings.Builder
	metrics := metricsOf(t, NewCollector(busySources()))
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		_, _ = fmt.Fprintln(&text, name, metrics[name])
	}
	testkit.Published(t, "testdata/metrics.txt", text.String())
}

// Each counter of pool.Counters is in the metrics, but two that have another form there, and each member of the
// document's Counters has a counter.
func TestCompleteCounters(t *testing.T) {
	var all pool.Counters
	for field := range reflect.TypeFor[pool.Counters]().Fields() {
		const value = 7_000_000_000
		s, stock := sources(newSet(newTarget("login")))
		var f pool.Counters
		reflect.ValueOf(&f).Elem().FieldByIndex(field.Index).SetInt(value)
		reflect.ValueOf(&all).Elem().FieldByIndex(field.Index).SetInt(value)
		stock.stocks[s.File.Current().Targets[0].ID] = decided(pool.Stock{Counts: pool.Counts{Counters: f}},
			refill.Status{State: refill.OK, Want: 1})
		shown := false
		for _, v := range metricsOf(t, NewCollector(s)) {
			shown = shown || v == value || v == value/1e9
		}
		if shown == (field.Name == "Left" || field.Name == "Refused") {
			t.Errorf("%s in the metrics: %v; metrics.stock (metrics.go) adds a counter", field.Name, shown)
		}
	}
	for _, member := range reflect.VisibleFields(reflect.TypeFor[Counters]()) {
		if reflect.ValueOf(countersOf(&all, 0)).FieldByIndex(member.Index).IsZero() {
			t.Errorf("countersOf (build.go) does not fill %s", member.Name)
		}
	}
}

// Few reports are not enough for a mark.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		failing bool
		reports string // + accepted, - rejected
		want    string
	}{
		{false, "", ""}, {false, "----", ""}, {false, "+--+-", "mostly_rejected"}, {false, "+-+-+", ""},
		{false, "---+++", ""},
		{true, "+++++", "failing"}, {true, "-----", "failing mostly_rejected"},
	} {
		var reports []bool
		for _, v := range c.reports {
			reports = append(reports, v == '+')
		}
		if got := marks(c.failing, reports); got == nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
