package simulatedtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"poold/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSitekey = "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI" // Google's published test key
	testPage    = "https://staging.example.com/login"
	testHex     = "81dc9bdb52d04dc20036dbd8313ed055"
)

// constantOptions gives all tasks the same lead time.
var constantOptions = Setup{Seed: 1, Median: 10 * time.Second}

// optionsWith returns a changed copy of constantOptions.
func optionsWith(change func(*Setup)) Setup {
	o := constantOptions
	change(&o)
	return o
}

// handle calls the handler without a network.
func handle(t *testing.T, s http.Handler, method, target, kind, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// ask makes a call, requires the status 200, and returns the body.
func ask(t *testing.T, s http.Handler, method, target, kind, body string) string {
	t.Helper()
	w := handle(t, s, method, target, kind, body)
	if w.Code != http.StatusOK {
		t.Fatalf("%s %s: status %d: %s", method, target, w.Code, w.Body)
	}
	return w.Body.String()
}

// get calls a path of in_php with a query.
func get(t *testing.T, s http.Handler, pathAndQuery string) string {
	t.Helper()
	return ask(t, s, http.MethodGet, pathAndQuery, "", "")
}

// post calls a path of the protocol create_task and decodes the answer.
func post(t *testing.T, s *Service, path, body string) map[string]any {
	t.Helper()
	return decode(t, ask(t, s, http.MethodPost, path, "application/json", body))
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("answer %q is no JSON object: %v", text, err)
	}
	return v
}

// recaptchaQuery returns the query of a submit. The argument more contains pairs of names and
// values that replace or add parameters. An empty value removes a parameter.
func recaptchaQuery(more ...string) string {
	v := url.Values{
		"key": {"k"}, "method": {"userrecaptcha"}, "googlekey": {testSitekey}, "pageurl": {testPage},
	}
	for pair := range slices.Chunk(more, 2) {
		v.Set(pair[0], pair[1])
		if pair[1] == "" {
			v.Del(pair[0])
		}
	}
	return "/in.php?" + v.Encode()
}

// buy submits one reCAPTCHA and returns its id.
func buy(t *testing.T, s *Service, more ...string) string {
	t.Helper()
	text := get(t, s, recaptchaQuery(more...))
	id, ok := strings.CutPrefix(text, "OK|")
	if !ok {
		t.Fatalf("submit answered %q", text)
	}
	return id
}

// poll polls a task and returns the answer in plain text.
func poll(t *testing.T, s *Service, id string) string {
	t.Helper()
	return get(t, s, "/res.php?key=k&action=get&id="+id)
}

// createBody returns a body of createTask with the given fields of the task.
func createBody(fields string) string {
	return `{"clientKey":"k","task":{"websiteURL":"` + testPage + `","websiteKey":"` + testSitekey + `",` + fields + `}}`
}

// orderTask submits a task through the protocol create_task and returns the task id.
func orderTask(t *testing.T, s *Service, body string) string {
	t.Helper()
	id, ok := post(t, s, "/createTask", body)["taskId"].(float64)
	if !ok {
		t.Fatalf("no task for %s", body)
	}
	return strconv.FormatInt(int64(id), 10)
}

// serve starts a server for the service on a real socket.
func serve(t *testing.T, s *Service) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(s)
	// Closing the server waits for calls in flight, so the service must first end the calls that a
	// fault delays.
	t.Cleanup(func() { s.Close(); server.Close() })
	return server
}

// newHTTPClient returns a client without idle connections, so that no request is sent twice and no
// connection leaks.
func newHTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch requests a URL.
func fetch(t *testing.T, c *http.Client, address string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	testkit.NoError(t, err)
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
