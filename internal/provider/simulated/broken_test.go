package simulated_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider/simulated"
)

const submit = "/in.php?key=k&method=turnstile&sitekey=0x4AAAAAAAAAAAAAAAAAAAAA&pageurl=https%3A%2F%2Fexample.com%2F"

// hangingUp is a caller that disconnects after a few writes.
type hangingUp struct {
	http.ResponseWriter
	takes, writes int
}

func (h *hangingUp) Write(p []byte) (int, error) {
	if h.writes++; h.writes > h.takes {
		return 0, net.ErrClosed
	}
	return h.ResponseWriter.Write(p)
}

// A long answer ends as soon as the caller disconnects.
func TestLongAnswersEndWithTheCaller(t *testing.T) {
	for kind, took := range map[simulated.Kind]time.Duration{simulated.Slow: 2 * time.Second, simulated.Huge: 0} {
		for takes := range 3 {
			synctest.Test(t, func(t *testing.T) {
				s := simulated.New(simulated.Options{Faults: []simulated.Fault{{Kind: kind}}})
				defer s.Close()
				w, began := &hangingUp{httptest.NewRecorder(), takes, 0}, time.Now()
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, submit, nil))
				if lasted := time.Since(began); w.writes != takes+1 || lasted != took*time.Duration(takes)/2 {
					t.Errorf("%s, %d writes taken: %d writes in %v", kind, takes, w.writes, lasted)
				}
			})
		}
	}
}
