package httpapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"poold/internal/httpapi/kernel"
	"poold/internal/status"
)

// mostBodies limits the number of rendered bodies that scrapers are still reading, and thereby the
// memory for slow scrapers. At the limit a scrape gets the newest body instead of a new body. The
// newest body is at most kernel.WriteLimit older than the scrape's snapshot, because each read ends
// within this time.
const mostBodies = 4

type scrapes struct {
	metrics *Metrics
	sets    Sets
	status  *status.Collector

	mu     sync.Mutex
	newest *scrapeBody // nil = the newest body has no readers any more
	read   int         // number of bodies that have readers
}

// scrapeBody is the common response to overlapping scrapes that get the same snapshot.
type scrapeBody struct {
	of      *status.Snapshot
	readers int // guarded by scrapes.mu
	// Each function renders only once, in the goroutine of the first caller.
	text, zipped func() ([]byte, error)
}

// scrape is GET /metrics: the counts of this replica, and the figures of the status.
func (s *scrapes) scrape(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	shared := s.open(s.status.Snapshot(r.Context()))
	defer s.close(shared)
	w.Header()["Vary"] = kernel.VaryEncoding
	render := shared.text
	zip := kernel.Quality(r.Header["Accept-Encoding"], "gzip") > 0
	if zip {
		render = shared.zipped
	}
	body, err := render()
	if err != nil {
		return err
	}
	if zip {
		w.Header()["Content-Encoding"] = kernel.CodingGzip
	}
	kernel.AnswerWithin(w, kernel.WriteLimit)
	kernel.Respond(w, string(textMetrics), body)
	return nil
}

// open returns the body for a scrape of this snapshot. When the caller no longer needs the body, it
// must pass the body to the method close.
func (s *scrapes) open(snapshot *status.Snapshot) *scrapeBody {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || s.newest.of != snapshot && s.read < mostBodies {
		body := &scrapeBody{of: snapshot, text: sync.OnceValues(func() ([]byte, error) { return s.render(snapshot) })}
		body.zipped = sync.OnceValues(func() ([]byte, error) { return compress(body.text()) })
		s.newest = body
		s.read++
	}
	s.newest.readers++
	return s.newest
}

// close ends one reader's use of a body.
func (s *scrapes) close(body *scrapeBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if body.readers--; body.readers > 0 {
		return
	}
	s.read--
	if s.newest == body {
		s.newest = nil
	}
}

// textMetrics is the only format of /metrics; every scraper accepts it.
var textMetrics = expfmt.NewFormat(expfmt.TypeTextPlain)

// render returns the metrics of this replica and of a snapshot, as text.
func (s *scrapes) render(snapshot *status.Snapshot) ([]byte, error) {
	s.metrics.dropStaleSeries(s.sets.Current())
	// Each body has its own registry, because its figures belong to one snapshot.
	state := prometheus.NewRegistry()
	state.MustRegister(snapshot)
	families, err := prometheus.Gatherers{s.metrics.registry, state}.Gather()
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, textMetrics)
	for _, family := range families {
		err = errors.Join(err, encoder.Encode(family))
	}
	if err != nil {
		return nil, fmt.Errorf("gathering the metrics: %w", err)
	}
	return text.Bytes(), nil
}

// compress returns a rendered body as gzip. If the rendering failed, compress returns the error of
// the rendering.
func compress(body []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out) // a buffer accepts every write
	_, _ = zip.Write(body)
	_ = zip.Close()
	return out.Bytes(), nil
}
