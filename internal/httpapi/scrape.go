package httpapi

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapes is the route for Prometheus.
type scrapes struct {
	metrics *Metrics
	sets    Sets
	status  Snapshots
}

// scrape is GET /metrics: what this replica counts, and the figures of the status.
func (s *scrapes) scrape(w http.ResponseWriter, r *http.Request, _ *call) error {
	s.metrics.keep(s.sets.Current())
	// A registry for this scrape alone: the figures belong to one snapshot.
	state := prometheus.NewRegistry()
	if err := state.Register(current(w, r, s.status)); err != nil {
		return fmt.Errorf("registering the status for a scrape: %w", err)
	}
	w.Header()["Cache-Control"] = noStore
	promhttp.HandlerFor(prometheus.Gatherers{s.metrics.registry, state}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError,
	}).ServeHTTP(w, r)
	return nil
}
