//go:build !race

package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAllocationsOfATake guards the allocations of this package for a take, so that no change raises
// them unnoticed.
func TestAllocationsOfATake(t *testing.T) {
	handler := quietServer(t, audited).handler
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pool/staging-login/token", nil)
	request.Header.Set("Authorization", "Bearer "+keyAll)
	w := &discardWriter{header: http.Header{}}
	const want = 46 // one or two more if the map of extra members grows
	if n := testing.AllocsPerRun(2000, func() {
		clear(w.header)
		handler.ServeHTTP(w, request)
	}); n > want {
		t.Errorf("%v allocations, at most %d", n, want)
	}
}
