package openapitest

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"poold/internal/httpapi/openapi"
)

// Poold returns the description of poold's API. Poold panics if the description cannot be read;
// the tests of package openapi report the cause.
var Poold = sync.OnceValue(func() *Description {
	d, err := Load(openapi.Document())
	if err != nil {
		panic(err)
	}
	return d
})

// Check checks a whole response of poold. The field Request of the response must be set.
func Check(response *http.Response, body []byte) error { return Poold().check(response, body) }

func (d *Description) check(response *http.Response, body []byte) error {
	x, err := d.Begin(response)
	if err == nil {
		err = x.End(body)
	}
	return err
}

// Watch checks the responses of poolds. The zero value checks nothing. A Watch is safe for
// concurrent use.
type Watch struct {
	mu    sync.RWMutex
	tests map[string]testing.TB // by the host of the poold
}

// Add checks the responses of the poold with the given URL until the test ends. A wrong response
// fails the test.
func (w *Watch) Add(t testing.TB, base string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tests == nil {
		w.tests = map[string]testing.TB{}
	}
	w.tests[u.Host] = t
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.tests[u.Host] == t { // a later test may use the same address
			delete(w.tests, u.Host)
		}
	})
}

// report fails the test to which the poold belongs.
func (w *Watch) report(host string, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if t := w.tests[host]; t != nil && err != nil {
		t.Errorf("openapi.yaml: %v", err)
	}
}

func (w *Watch) has(host string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.tests[host] != nil
}

// Transport returns a transport that works like next and checks the responses of watched poolds.
func (w *Watch) Transport(next http.RoundTripper) http.RoundTripper { return &transport{next, w} }

type transport struct {
	next  http.RoundTripper
	watch *Watch
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport inside.
func (t *transport) CloseIdleConnections() {
	if inside, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		inside.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	host := request.URL.Host
	if err != nil || !t.watch.has(host) {
		return response, err
	}
	x, err := Poold().Begin(response)
	if err != nil {
		t.watch.report(host, err)
		return response, nil
	}
	response.Body = &body{ReadCloser: response.Body, exchange: x, length: response.ContentLength, report: func(err error) { t.watch.report(host, err) }}
	return response, nil
}

// body checks what a test reads. It belongs to the goroutine that reads.
type body struct {
	io.ReadCloser

	exchange *Exchange
	length   int64 // -1 = unknown
	report   func(error)
	got      []byte
	ended    bool
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.ended {
		return n, err
	}
	if b.exchange.wantsBody() {
		b.got = append(b.got, into[:n]...)
	}
	if errors.Is(err, io.EOF) || b.length >= 0 && int64(len(b.got)) == b.length && n > 0 {
		b.ended = true
		b.report(b.exchange.End(b.got))
	}
	return n, err
}
