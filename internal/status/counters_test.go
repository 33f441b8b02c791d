package status

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"poold/internal/pool"
)

// A counter of pool.Figures is in the document of a target and in the metrics, but for those
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

// metricShows reports whether a metric has a value.
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
