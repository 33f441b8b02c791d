//go:build !race

package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/solve"
)

// endlessStock has a token of a typical length for each request.
type endlessStock struct{ Solver }

func (endlessStock) Await(context.Context, solve.Request) (pool.Token, error) {
	return pool.Token{Order: "tok1", Value: strings.Repeat("03AFcWeA5", 67), Provider: "solver", Born: day,
		Dies: day.Add(120 * time.Second), TTL: 78123 * time.Millisecond, Source: pool.FromPool}, nil
}

// discardWriter allocates nothing.
type discardWriter struct{ http.ResponseWriter }

func (w discardWriter) Write(b []byte) (int, error)    { return len(b), nil }
func (discardWriter) FlushError() error                { return nil }
func (discardWriter) SetWriteDeadline(time.Time) error { return nil }

// TestAllocationsOfATake guards the allocations of this package for a take, so that no change raises
// them unnoticed.
func TestAllocationsOfATake(t *testing.T) {
	d := assemble(t, sampleSet(allKeys()...))
	d.Solver, d.Log = endlessStock{}, slog.New(slog.DiscardHandler)
	request := d.request(t, http.MethodGet, "/pool/staging-login/token", nil, bearer(keyAll))
	w := discardWriter{httptest.NewRecorder()}
	const want = 46 // one or two more if the map of extra members grows
	if n := testing.AllocsPerRun(2000, func() {
		clear(w.Header())
		d.handler.ServeHTTP(w, request)
	}); n > want {
		t.Errorf("%v allocations, at most %d", n, want)
	}
}
