package httpapi

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"

	"github.com/prometheus/client_golang/prometheus"
)

type gatherings struct{ n atomic.Int64 }

func (g *gatherings) Describe(chan<- *prometheus.Desc) {}
func (g *gatherings) Collect(chan<- prometheus.Metric) { g.n.Add(1) }

// stuckScraper is the connection of a scraper that does not read until the test unblocks it.
type stuckScraper struct {
	*httptest.ResponseRecorder
	began    chan<- struct{} // receives a value at each Write
	freed    <-chan struct{}
	deadline time.Time // deadline of its Writes
}

func (s *stuckScraper) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *stuckScraper) Write(p []byte) (int, error) {
	s.began <- struct{}{}
	<-s.freed
	return s.ResponseRecorder.Write(p)
}

// scrapers is a group of scrapers that do not read until the test unblocks the group.
type scrapers struct {
	handler http.Handler
	began   chan struct{}
	freed   chan struct{}
	running sync.WaitGroup
}

func (d *daemon) scrapers(t *testing.T) *scrapers {
	s := &scrapers{handler: d.Handler(), began: make(chan struct{}), freed: make(chan struct{})}
	t.Cleanup(s.unblock)
	return s
}

// scrape sends another request, waits for the first write of the response, and returns the
// connection.
func (s *scrapers) scrape(t *testing.T, headers ...string) *stuckScraper {
	t.Helper()
	stuck := &stuckScraper{ResponseRecorder: httptest.NewRecorder(), began: s.began, freed: s.freed}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/metrics", nil)
	request.Header.Set("Authorization", "Bearer "+keyStatus)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	s.running.Go(func() { s.handler.ServeHTTP(stuck, request) })
	select {
	case <-s.began:
	case <-time.After(time.Minute):
		t.Fatal("a scrape gets no answer while others do not read theirs")
	}
	return stuck
}

// unblock makes all scrapers read their responses.
func (s *scrapers) unblock() {
	select {
	case <-s.freed:
		return
	default:
		close(s.freed)
	}
	go func() { // a handler may write the response in parts
		for range s.began {
		}
	}()
	s.running.Wait()
	close(s.began)
}

// TestScrapersThatDoNotReadShareBodies: slow scrapers share bodies, even if the status changes
// often.
func TestScrapersThatDoNotReadShareBodies(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	gathered := &gatherings{}
	d.metrics.registry.MustRegister(gathered) // MustRegister gathers once
	var before int64
	for range 2 { // the second group of scrapers uses the room that the first group has freed
		before = gathered.n.Load()
		scrapers := d.scrapers(t)
		var all []*stuckScraper
		for i := range 100 {
			began := time.Now()
			one := scrapers.scrape(t, []string{"Accept-Encoding: gzip", "Accept: text/plain"}[i%2])
			if one.deadline.Before(began.Add(kernel.WriteLimit)) || one.deadline.After(time.Now().Add(kernel.WriteLimit)) {
				t.Fatalf("scraper %d, which asked at %v, may read until %v", i, began, one.deadline)
			}
			all = append(all, one)
			if i%5 == 0 {
				d.status.Changed()
			}
		}
		if n := gathered.n.Load() - before; n < 2 || n > mostBodies {
			t.Errorf("%d bodies for 100 scrapers that do not read", n)
		}
		scrapers.unblock()
		for i, one := range all {
			if body := uncompressed(t, one.Result()); !strings.Contains(body, `poold_pool_tokens{target="checkout"} 0`+"\n") {
				t.Fatalf("scraper %d read %q", i, body)
			}
		}
	}
	before = gathered.n.Load()
	// After the slow scrapers have ended, each scrape gets its own snapshot.
	d.metrics.Callback("settled")
	for range 2 {
		if body := d.ask(t, "GET", "/metrics", bearer(keyStatus)).body; !strings.Contains(body, `poold_callbacks_total{outcome="settled"} 1`+"\n") {
			t.Errorf("a scrape that shares with none shows old figures: %s", body)
		}
	}
	if n := gathered.n.Load() - before; n != 2 {
		t.Errorf("%d bodies for two scrapes in turn", n)
	}
}

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
