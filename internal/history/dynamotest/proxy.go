package dynamotest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
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
	// Unprocessed is the number of items of a batch that the proxy does not forward. The response lists these items as
	// unprocessed.
	Unprocessed int
	// If Before is true, the proxy cuts the connection and does not forward the request. If After is
	// true, the proxy forwards the request, but cuts the connection before the response.
	Before, After bool
	Torn          bool          // cuts the connection in the middle of the response
	Delay         time.Duration // how long the proxy waits before it handles the request
}

// Proxy is a proxy between a program and an emulator of DynamoDB.
type Proxy struct {
	URL string

	server string
	judge  func(operation string, body []byte) Fate

	mu       sync.Mutex
	requests map[string]int
	units    map[string]float64
}

// Through starts a proxy in front of a server. The function judge decides the fate of each request, one
// request at a time; nil = the proxy forwards all requests. The proxy stops when the test ends.
func Through(t testing.TB, s *Server, judge func(operation string, body []byte) Fate) *Proxy {
	t.Helper()
	p := &Proxy{server: s.URL, judge: judge, requests: map[string]int{}, units: map[string]float64{}}
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

// Units returns the number of capacity units that the server reported for an operation.
func (p *Proxy) Units(operation string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units[operation]
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
	var left map[string][]json.RawMessage
	if operation == "BatchWriteItem" && fate.Unprocessed > 0 {
		body, left = split(body, fate.Unprocessed)
	}
	// The proxy does not pass on the client's context, because a real server also continues a request
	// after its client has disconnected.
	status, header, answer, err := p.forward(r.Header, askForCapacity(operation, body))
	if err != nil || fate.After {
		panic(http.ErrAbortHandler)
	}
	p.addUnits(operation, answer)
	if left != nil {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"UnprocessedItems": left})
		return
	}
	for name := range header {
		w.Header().Set(name, header.Get(name))
	}
	if fate.Torn {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		answer = answer[:len(answer)/2]
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

// split removes the last n writes of each table from a batch, but keeps at least one write of each
// table.
func split(body []byte, n int) (rest []byte, left map[string][]json.RawMessage) {
	var batch struct{ RequestItems map[string][]json.RawMessage }
	if json.Unmarshal(body, &batch) != nil {
		return body, nil
	}
	left = map[string][]json.RawMessage{}
	for table, writes := range batch.RequestItems {
		stay := max(1, len(writes)-n)
		batch.RequestItems[table], left[table] = writes[:stay], writes[stay:]
	}
	rest, err := json.Marshal(batch)
	if err != nil {
		return body, nil
	}
	return rest, left
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

// askForCapacity adds an option to a request, so that the emulator reports the consumed capacity.
// The changed request keeps its old signature, because the emulator does not check signatures.
func askForCapacity(operation string, body []byte) []byte {
	switch operation {
	case "TransactWriteItems", "BatchWriteItem", "Query", "GetItem":
		return append([]byte(`{"ReturnConsumedCapacity":"TOTAL",`), bytes.TrimPrefix(body, []byte("{"))...)
	default:
		return body
	}
}

// addUnits adds the consumed capacity in a response to the units of the operation. A response has one
// figure, or one figure for each table.
func (p *Proxy) addUnits(operation string, answer []byte) {
	type consumed struct{ CapacityUnits float64 }
	var one struct{ ConsumedCapacity consumed }
	var each struct{ ConsumedCapacity []consumed }
	if json.Unmarshal(answer, &one) != nil && json.Unmarshal(answer, &each) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[operation] += one.ConsumedCapacity.CapacityUnits
	for _, c := range each.ConsumedCapacity {
		p.units[operation] += c.CapacityUnits
	}
}
