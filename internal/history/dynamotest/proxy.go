package dynamotest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fate describes how the proxy handles a request.
type Fate struct {
	// Answer is an error type of DynamoDB, such as ThrottlingException. The proxy returns this error
	// and does not forward the request; "" = no error. Reasons are the cancellation reasons of a
	// TransactionCanceledException.
	Answer  string
	Reasons []string
	// If Before is true, the proxy cuts the connection and does not forward the request. If After is
	// true, the proxy forwards the request, but cuts the connection before the response.
	Before, After bool
	Delay         time.Duration // how long the proxy waits before it handles the request
}

// Proxy is a proxy between a program and an emulator of DynamoDB.
type Proxy struct {
	URL string

	server string
	judge  func(operation string, body []byte) Fate

	mu       sync.Mutex
	requests map[string]int
}

// Through starts a proxy in front of a server. The function judge decides the fate of each request, one
// request at a time; nil = the proxy forwards all requests. The proxy stops when the test ends.
func Through(t testing.TB, s *Server, judge func(operation string, body []byte) Fate) *Proxy {
	t.Helper()
	p := &Proxy{server: s.URL, judge: judge, requests: map[string]int{}}
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
	select {
	case <-time.After(fate.Delay):
	case <-r.Context().Done():
		return
	}
	if fate.Before {
		panic(http.ErrAbortHandler)
	}
	if fate.Answer != "" {
		writeError(w, fate)
		return
	}
	// The proxy does not pass on the client's context, because a real server also continues a request
	// after its client has disconnected.
	status, header, answer, err := p.forward(r.Header, body)
	if err != nil || fate.After {
		panic(http.ErrAbortHandler)
	}
	for name := range header {
		w.Header().Set(name, header.Get(name))
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func writeError(w http.ResponseWriter, fate Fate) {
	answer := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + fate.Answer, "message": "injected"}
	if fate.Reasons != nil {
		var reasons []map[string]string
		for _, code := range fate.Reasons {
			reasons = append(reasons, map[string]string{"Code": code})
		}
		answer["CancellationReasons"] = reasons
	}
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

func (p *Proxy) forward(header http.Header, body []byte) (int, http.Header, []byte, error) {
	request, err := http.NewRequest(http.MethodPost, p.server, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header = header.Clone()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, answer, err
}
