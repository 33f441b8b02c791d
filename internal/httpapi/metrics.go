package httpapi

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"poold/internal/history"
	"poold/internal/listener"
	"poold/internal/purchase"
	"poold/internal/status"
)

// Metrics counts the events of this replica. The response of /metrics also contains the metrics of
// the status document: states, and counts over all replicas. Metrics is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	age           *prometheus.HistogramVec // no label
	wait          *prometheus.HistogramVec // no label
	reportAge     *prometheus.HistogramVec // outcome
	solves        *prometheus.CounterVec   // provider, outcome
	solveDuration *prometheus.HistogramVec // provider
	providerCalls *prometheus.CounterVec   // provider, action, outcome
	passedOn      *prometheus.CounterVec   // provider, outcome
	callbacks     *prometheus.CounterVec   // outcome
	letters       *prometheus.CounterVec   // outcome
	requests      *prometheus.CounterVec   // code
	keyRequests   *prometheus.CounterVec   // key, outcome
}

// NewMetrics returns the metrics with their registry. The texts become
// labels of poold_build_info. The functions return the numbers of connections and of dropped log lines.
func NewMetrics(version, commit, replica string, connections func() listener.Connections,
	droppedLines func() int64) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	in := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return in.NewCounterVec(prometheus.CounterOpts{Namespace: "poold", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return in.NewHistogramVec(prometheus.HistogramOpts{Namespace: "poold", Name: name, Help: help, Buckets: buckets},
			labels)
	}
	m := &Metrics{
		registry: registry,
		age: histogram("token_age_seconds", "Age of a token when this replica handed it out.",
			[]float64{1, 2, 5, 10, 20, 30, 45, 60, 80, 100, 150, 200, 300}),
		wait: histogram("token_wait_seconds",
			"Time from a request to its token, at this replica; includes requests whose token was ready.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60}),
		reportAge: histogram("token_report_age_seconds",
			"Age of a token when its caller reported the result to this replica.",
			[]float64{1, 2, 5, 10, 20, 30, 45, 60, 80, 100, 150, 200, 300, 600}, "outcome"),
		solves: counter("orders_ended_total", "Orders that ended at this replica, by outcome.", "provider", "outcome"),
		solveDuration: histogram("solve_duration_seconds",
			"Time from the submit of an order to its token, for solved orders.",
			[]float64{1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300}, "provider"),
		providerCalls: counter("provider_requests_total", "Calls from this replica to a provider, by outcome.", "provider",
			"action", "outcome"),
		passedOn: counter("provider_reports_total", "Reports for a provider at this replica, by outcome.", "provider",
			"outcome"),
		callbacks: counter("callbacks_total", "Callbacks that came in at this replica, by outcome.", "outcome"),
		letters:   counter("dead_letters_total", "Dead letters that ended at this replica, by outcome.", "outcome"),
		requests: counter("http_requests_total",
			"Requests answered by this replica; code 499 counts callers that hung up or did not read in time.", "code"),
		keyRequests: counter("key_requests_total",
			"Requests for a token, a solve or a report that this replica answered, by key (- without one) and outcome: "+
				"ok, hung_up, or the code of the problem.", "key", "outcome"),
	}
	// The series must exist from the start: a rate in Prometheus does not count the event that
	// creates a series.
	m.requests.WithLabelValues("200")
	for _, outcome := range []string{
		purchase.CallbackSettled, purchase.CallbackFailed, purchase.CallbackUnknown,
		purchase.CallbackForged, purchase.CallbackMalformed, purchase.CallbackKept, purchase.CallbackRefused,
	} {
		m.callbacks.WithLabelValues(outcome)
	}
	for _, outcome := range []string{
		purchase.DeadLetterReplayed, purchase.DeadLetterDropped, purchase.DeadLetterExpired,
	} {
		m.letters.WithLabelValues(outcome)
	}
	in.NewGauge(prometheus.GaugeOpts{
		Name: "poold_build_info", Help: "The running build; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "revision": commit, "replica": replica,
			"goversion": runtime.Version()},
	}).Set(1)
	in.NewGaugeFunc(prometheus.GaugeOpts{Name: "poold_connections", Help: "Open connections to this replica."},
		func() float64 { return float64(connections().Open) })
	in.NewCounterFunc(prometheus.CounterOpts{
		Name: "poold_connections_refused_total",
		Help: "Connections beyond server.connections, which this replica closed at once.",
	}, func() float64 { return float64(connections().Refused) })
	in.NewCounterFunc(prometheus.CounterOpts{
		Name: "poold_log_lines_dropped_total", Help: "Log lines of this replica that the reader of stderr was too slow for.",
	}, func() float64 { return float64(droppedLines()) })
	return m
}

// Provider returns a function for provider.New that counts the calls to one provider.
// The values of action and outcome that package provider passes come from fixed lists.
func (m *Metrics) Provider(name string) func(action, outcome string) {
	return func(action, outcome string) {
		m.providerCalls.WithLabelValues(name, action, outcome).Inc()
	}
}

// Reported counts a caller's report on a token. The argument age is the age of the token at the
// time of the report.
func (m *Metrics) Reported(accepted bool, age time.Duration) {
	outcome := "rejected"
	if accepted {
		outcome = "accepted"
	}
	m.reportAge.WithLabelValues(outcome).Observe(max(0, age.Seconds()))
}

// mostScrapes limits the memory for scrapes: a scrape of 10,000 targets takes some megabytes.
const mostScrapes = 4

// scraper returns the handler of GET /metrics: the counts of this replica, and the figures of the status.
func (m *Metrics) scraper(from *status.Collector) http.Handler {
	state := prometheus.NewRegistry()
	state.MustRegister(from)
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, state},
		promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes})
}

// Ended counts an order that ended. It implements purchase.Observer, as does Count.
func (m *Metrics) Ended(p purchase.Purchase, took time.Duration) {
	outcome := history.OutcomeOf(p.Outcome, p.Task)
	m.solves.WithLabelValues(p.Provider, string(outcome)).Inc()
	if outcome == history.Solved || outcome == history.Discarded {
		m.solveDuration.WithLabelValues(p.Provider).Observe(took.Seconds())
	}
}

// Count counts a callback, a dead letter or a report to a provider by its outcome.
func (m *Metrics) Count(event, provider, outcome string) {
	switch event {
	case "callback":
		m.callbacks.WithLabelValues(outcome).Inc()
	case "dead_letter":
		m.letters.WithLabelValues(outcome).Inc()
	case "report":
		m.passedOn.WithLabelValues(provider, outcome).Inc()
	}
}
