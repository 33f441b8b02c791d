package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is a key with characters that forms, JSON and URLs encode differently.
const canary = `canary-KEY+/&="%41~0123456789abcdef`

// other is a service that poold does not know. (newClient takes captchaAI for "".)
const other = "other"

// v2 is an identity that each protocol can express.
var v2 = captcha.Identity{
	Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", Pageurl: "https://example.com/login",
}

// journal collects the observed outcomes of a client.
type journal struct {
	mu       sync.Mutex
	outcomes []string
}

func (j *journal) observe(action, outcome string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcomes = append(j.outcomes, action+" "+outcome)
}

func (j *journal) last() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.outcomes) == 0 {
		return "nothing"
	}
	return j.outcomes[len(j.outcomes)-1]
}

// newClient returns a client. It sets zero fields of cfg to test values.
func newClient(t *testing.T, cfg targets.Provider) (*Client, *journal) {
	t.Helper()
	j := &journal{}
	cfg.Name = "test"
	if cfg.Protocol == "" {
		cfg.Protocol = targets.ProtocolInPHP
	}
	if cfg.Service == "" {
		cfg.Service = captchaAI
	}
	if cfg.Key == "" {
		cfg.Key = canary
	}
	if cfg.URL == "" {
		cfg.URL = "http://provider.example.com"
	}
	c := New(cfg, nil, j.observe)
	t.Cleanup(c.Close)
	return c, j
}

// newServedClient returns a client of a server with the given handler.
func newServedClient(t *testing.T, cfg targets.Provider, handler http.HandlerFunc) (*Client, *journal) {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	cfg.URL = srv.URL
	c, j := newClient(t, cfg)
	return c, j
}

// answering returns a handler that always gives the same answer.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// scripted is a transport without a network, for tests in a bubble. The function reply returns the
// answer to call number n.
type scripted struct {
	mu    sync.Mutex
	calls int
	reply func(n int, req *http.Request) (int, string, error)
}

func (w *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.WroteHeaders()
	}
	w.mu.Lock()
	w.calls++
	n := w.calls
	w.mu.Unlock()
	status, body, err := w.reply(n, req)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (w *scripted) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// newScriptedClient returns a client with a scripted transport. It also returns a function that
// sets the answer of the transport.
func newScriptedClient(t *testing.T,
	cfg targets.Provider) (*Client, *journal, *scripted, func(status int, body string)) {
	t.Helper()
	c, j := newClient(t, cfg)
	var mu sync.Mutex
	status, body := http.StatusOK, ""
	w := &scripted{reply: func(int, *http.Request) (int, string, error) {
		mu.Lock()
		defer mu.Unlock()
		return status, body, nil
	}}
	c.wire = w
	return c, j, w, func(s int, b string) {
		mu.Lock()
		defer mu.Unlock()
		status, body = s, b
	}
}

func faultOf(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want an *Error", err, err)
	}
	return e
}

func submitOne(t *testing.T, c *Client) error {
	t.Helper()
	_, err := c.Submit(context.Background(), Submission{Identity: v2})
	return err
}

func pollOne(t *testing.T, c *Client) error {
	t.Helper()
	_, err := c.Poll(context.Background(), "1", v2)
	return err
}

// received is a request that reached the server.
type received struct {
	method, uri, kind, body string
}

// recorder stores each request and always gives the same answer.
func recorder(t *testing.T, into *[]received, reply string) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		*into = append(*into, received{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(body)})
		_, _ = w.Write([]byte(reply))
	}
}
