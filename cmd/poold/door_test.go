package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/daemontest"
)

// callbackDoor is the public address of the replicas, like the address of a load balancer. It
// forwards each callback to the first replica that listens. If the replica dies during
// a callback, the door does not repeat the callback. A nil door forwards nothing.
type callbackDoor struct {
	url string

	mu       sync.Mutex
	replicas []*process
}

func newCallbackDoor(t testing.TB) *callbackDoor {
	t.Helper()
	d := &callbackDoor{}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *callbackDoor) setReplicas(replicas ...*process) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas = replicas
}

func (d *callbackDoor) listening() []*process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replicas
}

func (d *callbackDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for range 200 { // a callback may arrive before the test has set the replicas
		if len(d.listening()) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	client := &http.Client{Timeout: 5 * time.Second,
		Transport: daemontest.Checking(&http.Transport{DisableKeepAlives: true})}
	for _, p := range d.listening() {
		request, _ := http.NewRequest(r.Method, p.URL+r.URL.RequestURI(), bytes.NewReader(body)) // both are valid
		request.Header = r.Header
		response, err := client.Do(request)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			continue
		case err != nil:
			w.WriteHeader(http.StatusBadGateway) // the replica may have accepted the callback
		default:
			_ = response.Body.Close()
			w.WriteHeader(response.StatusCode)
		}
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}
