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

// callback is a callback of the service.
type callback struct {
	method, path, contentType string
	body                      []byte
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

func (d *callbackDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	c := callback{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body}
	d.mu.Lock()
	replicas := d.replicas
	d.mu.Unlock()
	// A callback may arrive before the test has set the replicas.
	for range 200 {
		if len(replicas) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
		d.mu.Lock()
		replicas = d.replicas
		d.mu.Unlock()
	}
	for _, p := range replicas {
		status, err := c.send(p.URL)
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err != nil {
			status = http.StatusBadGateway // the replica may have accepted the callback
		}
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (c callback) send(base string) (status int, err error) {
	request, err := http.NewRequest(c.method, base+c.path, bytes.NewReader(c.body))
	if err != nil {
		return 0, err
	}
	if c.contentType != "" {
		request.Header.Set("Content-Type", c.contentType)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: daemontest.Checking(&http.Transport{DisableKeepAlives: true})}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}
