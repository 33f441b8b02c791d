package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"poold/internal/listener"
)

// connectionCounts is a prometheus.Collector of the numbers of connections.
type connectionCounts func() listener.Counts

var (
	connectionsDesc = prometheus.NewDesc("poold_connections", "Open connections to this replica.", nil, nil)
	refusedDesc     = prometheus.NewDesc("poold_connections_refused_total",
		"Connections beyond server.connections, which this replica closed at once.", nil, nil)
)

func (c connectionCounts) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c connectionCounts) Collect(ch chan<- prometheus.Metric) {
	n := c()
	ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(n.Open))
	ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(n.Refused))
}
