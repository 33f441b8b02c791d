package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"poold/internal/provider"
)

// stateCollector turns one snapshot into metrics. While Redis does not answer
// it leaves the figures of the targets out: a counter that fell to 0 and came
// back would look like that many new requests.
type stateCollector struct {
	snapshot *snapshot

	tokens, want, inFlight, requests, expired *prometheus.Desc
	providerUp, configOK, redisUp             *prometheus.Desc
}

func newStateCollector(snap *snapshot) *stateCollector {
	const everywhere = " Counted over all replicas, as on /status: do not sum over instances."
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("poold_"+name, help, labels, nil)
	}
	return &stateCollector{
		snapshot:   snap,
		tokens:     desc("pool_tokens", "Fresh tokens."+everywhere, "target"),
		want:       desc("pool_want", "How many tokens the policy wants kept now.", "target"),
		inFlight:   desc("pool_in_flight", "Orders under way."+everywhere, "target"),
		requests:   desc("token_requests_total", "Requests for a token since the identity was first seen: hit (was ready), waited, miss, replay (Idempotency-Key)."+everywhere, "target", "outcome"),
		expired:    desc("tokens_expired_total", "Tokens that met their margin unused since the identity was first seen."+everywhere, "target"),
		providerUp: desc("provider_up", "1 where a provider can be asked (ok or busy), 0 where it is paused.", "provider"),
		configOK:   desc("config_last_reload_successful", "1 where the last attempt to load the configuration file was good."),
		redisUp:    desc("redis_up", "1 where Redis answers."),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.tokens, c.want, c.inFlight, c.requests, c.expired, c.providerUp, c.configOK, c.redisUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	status := &c.snapshot.status
	gauge(c.configOK, truth(status.Config.OK))
	gauge(c.redisUp, truth(status.Redis.OK))
	for _, p := range status.Providers {
		gauge(c.providerUp, truth(asked(provider.StateKind(p.State))), p.Name)
	}
	for i := range status.Targets {
		t := &status.Targets[i]
		gauge(c.want, float64(t.Want), t.Name)
		if c.snapshot.stocks == nil {
			continue
		}
		gauge(c.tokens, float64(t.Fresh), t.Name)
		gauge(c.inFlight, float64(t.InFlight), t.Name)
		count(c.requests, t.Hits, t.Name, "hit")
		count(c.requests, t.Waited, t.Name, "waited")
		count(c.requests, t.Misses, t.Name, "miss")
		count(c.requests, c.snapshot.stocks[i].Figures.Replays, t.Name, "replay")
		count(c.expired, t.Expired, t.Name)
	}
}

// truth is how Prometheus says yes and no.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
