package openapitest

import (
	"bytes"
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
	d, err := Load(openapi.Document)
	if err != nil {
		panic(err)
	}
	return d
})

// Check checks a whole response of poold. The field Request of the response must be set.
func Check(response *http.Response, body []byte) error { return Poold().check(response, body) }

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

// RoundTrip implements http.RoundTripper. It reads the body of a response that is JSON.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	host := request.URL.Host
	t.watch.mu.RLock()
	watched := t.watch.tests[host] != nil
	t.watch.mu.RUnlock()
	if err != nil || !watched {
		return response, err
	}
	var body []byte
	if isJSON(response) {
		body, err = io.ReadAll(response.Body)
		response.Body = &readBefore{io.MultiReader(bytes.NewReader(body), response.Body), response.Body}
	}
	if err == nil { // else the test gets the first part, and the same error from the body
		t.watch.report(host, Check(response, body))
	}
	return response, nil
}

// readBefore is a body that was read before.
type readBefore struct {
	io.Reader
	io.Closer
}
