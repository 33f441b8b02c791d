package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// plainContext returns the context of a request whose response nobody reads.
func plainContext(r *http.Request) *Context {
	return &Context{Context: echo.New().NewContext(r, httptest.NewRecorder())}
}

// TestPrefersTheNamedMediaType: a media type is preferred if the Accept header gives it more weight
// than application/json.
func TestPrefersTheNamedMediaType(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/plain": true, "text/plain; charset=utf-8": true, "TEXT/PLAIN, */*;q=0.1": true, "application/json;q=0.5, text/plain": true,
		"text/html;q=0.9, text/plain, application/json;Q=0.5": true,
		"*/*": false, "": false, "application/json": false,
		"application/json, text/plain, */*":           false, // a widespread library's default
		"text/html,application/xhtml+xml,*/*;q=0.8":   false,
		"text/plain;q=0.3, application/json;q=0.4":    false,
		"text/plainer, application/text/plain, plain": false,
	} {
		c := plainContext(&http.Request{Header: http.Header{"Accept": {"text/html", accept}}})
		if c.Prefers("text/plain") != want {
			t.Errorf("Accept %q: %v", accept, !want)
		}
	}
}
