package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
)

// plainContext returns the context of a request whose response nobody reads.
func plainContext(r *http.Request) *Context {
	return &Context{Context: echo.New().NewContext(r, httptest.NewRecorder())}
}

// TestLargeBodiesAreDecodedInTurn: with one decoder, one large body is decoded at a time. A small
// body does not wait for a large one.
func TestLargeBodiesAreDecodedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pictures{inUse: make(chan struct{}, 2), decoders: make(chan struct{}, 1)}
		read := func(ctx context.Context, bytes int, decode func([]byte)) error {
			r := httptest.NewRequestWithContext(ctx, "POST", "/solve", strings.NewReader(strings.Repeat("x", bytes)))
			release, err := p.Read(plainContext(r), 1<<20, decode)
			release()
			return err
		}
		busy := make(chan struct{})
		go func() { _ = read(t.Context(), MaxBody+1, func([]byte) { <-busy }) }()
		synctest.Wait()
		if err := read(t.Context(), MaxBody, func([]byte) {}); err != nil {
			t.Error(err)
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := read(leaving, MaxBody+1, func([]byte) { t.Error("two decode at once") }); err == nil {
			t.Error("it did not wait")
		}
		close(busy)
		synctest.Wait()
		if err := read(t.Context(), MaxBody+1, func([]byte) {}); err != nil || len(p.inUse) != 0 {
			t.Errorf("%v, %d large bodies are in use", err, len(p.inUse))
		}
	})
}

// TestPrefersTheNamedMediaType: a media type is preferred if the Accept header gives it more weight
// than application/json.
func TestPrefersTheNamedMediaType(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/plain": true, "text/plain; charset=utf-8": true, "TEXT/PLAIN, */*;q=0.1": true, "application/json;q=0.5, text/plain": true,
		"text/plain;q=0.5, */*": true, "text/html;q=0.9, text/plain, application/json;Q=0.5": true,
		"*/*": false, "": false, "text/*": false, "text/plain;q=0": false, "application/json": false,
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
