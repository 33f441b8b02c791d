package httpapi

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"poold/internal/httpapi/kernel"

	"github.com/prometheus/client_golang/prometheus"
)

func TestScrapesAreCompressedIfAccepted(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	fillMetrics(t, d)
	for accepted, coding := range map[string]string{
		"gzip": "gzip", "deflate, gzip;q=0.5": "gzip", "identity": "", "gzip;q=0": "", "br, *": "",
	} {
		answer, err := d.client.Do(d.request(t, "GET", "/metrics", nil, "Accept-Encoding: "+accepted))
		noError(t, err)
		body := uncompressed(t, answer)
		_ = answer.Body.Close()
		if got := answer.Header.Get("Content-Encoding"); got != coding || answer.Header.Get("Vary") != "Accept-Encoding" ||
			answer.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("Accept-Encoding %q: %v", accepted, answer.Header)
		}
		if !strings.Contains(body, `poold_pool_tokens{target="staging-login"} 3`+"\n") {
			t.Errorf("Accept-Encoding %q: %q", accepted, body)
		}
	}
}

// unreadable is a metric that cannot be read while its field `on` is true.
type unreadable struct{ on atomic.Bool }

func (u *unreadable) Describe(chan<- *prometheus.Desc) {}

func (u *unreadable) Collect(out chan<- prometheus.Metric) {
	if u.on.Load() {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(errUnreadable), errUnreadable)
	}
}

var errUnreadable = errors.New("unreadable for the test")

// TestScrapeFailsAsAWhole: if a metric cannot be read, a scraper gets a problem and not a part of
// the metrics, with and without gzip. The next scrape works.
func TestScrapeFailsAsAWhole(t *testing.T) {
	inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
		var broken unreadable
		d.metrics.registry.MustRegister(&broken)
		for _, accepted := range []string{"Accept-Encoding: gzip", "Accept-Encoding: identity"} {
			broken.on.Store(true)
			a := d.handle(t, "GET", "/metrics", "", bearer(keyStatus), accepted)
			checkProblem(t, accepted, a, 500, kernel.CodeInternal, "")
			equal(t, accepted, a.header.Get("Content-Encoding"), "")
			broken.on.Store(false)
			d.handle(t, "GET", "/metrics", "", bearer(keyStatus), accepted).check(t, "the next scrape", 200)
		}
		equal(t, "logged", d.logged.Count(`"level":"ERROR"`, `"route":"/metrics"`, errUnreadable.Error()), 2)
	})
}

func uncompressed(t *testing.T, answer *http.Response) string {
	t.Helper()
	var from io.Reader = answer.Body
	if answer.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(answer.Body)
		noError(t, err)
		from = unzipped
	}
	body, err := io.ReadAll(from)
	noError(t, err)
	return string(body)
}
