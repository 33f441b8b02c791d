package dynamotest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"poold/internal/testkit"
)

// Fate describes how the proxy handles a request.
type Fate struct {
	// Answer is an error type of DynamoDB, such as ThrottlingException. The proxy returns this error
	// and does not forward the request; "" = no error. Reasons are the CancellationReasons of a
	// TransactionCanceledException.
	Answer  string
	Reasons []map[string]string
	// If Before is true, the proxy cuts the connection and does not forward the request. If After is
	// true, the proxy forwards the request, but cuts the connection before the response.
	Before, After bool
}

// Proxy is a proxy between a program and an emulator of DynamoDB.
type Proxy struct {
	URL string

	server *httputil.ReverseProxy
	judge  func(operation string, body []byte) Fate

	mu       sync.Mutex
	requests map[string]int
}

// Through starts a proxy in front of a server. The function judge decides the fate of each request, one
// request at a time; nil = the proxy forwards all requests. The proxy stops when the test ends.
func Through(t testing.TB, s *Emulator, judge func(operation string, body []byte) Fate) *Proxy {
	t.Helper()
	to, err := url.Parse(s.URL)
	testkit.NoError(t, err)
	p := &Proxy{server: httputil.NewSingleHostReverseProxy(to), judge: judge, requests: map[string]int{}}
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	p.URL = front.URL
	return p
}

// Requests returns the number of requests for an operation, such as GetItem.
func (p *Proxy) Requests(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[operation]
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fate := p.nextFate(operation, body)
	if fate.Before {
		panic(http.ErrAbortHandler)
	}
	if fate.Answer != "" {
		writeError(w, fate)
		return
	}
	// The proxy does not pass on the client's context, because a real server also continues a request
	// after its client has disconnected.
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.server.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	if fate.After {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func writeError(w http.ResponseWriter, fate Fate) {
	answer := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + fate.Answer, "message": "injected",
		"CancellationReasons": fate.Reasons}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(answer)
}

// nextFate counts a request and returns its fate.
func (p *Proxy) nextFate(operation string, body []byte) Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[operation]++
	if p.judge == nil {
		return Fate{}
	}
	return p.judge(operation, body)
}
