package simulatedtest

import (
	"encoding/json"
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
)

// constantOptions gives all tasks the same lead time.
var constantOptions = Setup{Seed: 1, Median: 10 * time.Second}

// optionsWith returns a changed copy of constantOptions.
func optionsWith(change func(*Setup)) Setup {
	o := constantOptions
	change(&o)
	return o
}

// ask makes a call without a network, requires the status 200, and returns the body.
func ask(t *testing.T, s http.Handler, method, target, body string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
	if w.Code != http.StatusOK {
		t.Fatalf("%s %s: status %d: %s", method, target, w.Code, w.Body)
	}
	return w.Body.String()
}

// get calls a path of in_php with a query.
func get(t *testing.T, s http.Handler, pathAndQuery string) string {
	t.Helper()
	return ask(t, s, http.MethodGet, pathAndQuery, "")
}

// post calls a path of the protocol create_task and decodes the answer.
func post(t *testing.T, s *Service, path, body string) (answer map[string]any) {
	t.Helper()
	testkit.NoError(t, json.Unmarshal([]byte(ask(t, s, http.MethodPost, path, body)), &answer))
	return answer
}

// recaptchaQuery returns the query of a submit. The argument more contains pairs of names and values that add
// parameters.
func recaptchaQuery(more ...string) string {
	v := url.Values{
		"key": {"k"}, "method": {"userrecaptcha"}, "googlekey": {testSitekey}, "pageurl": {testPage},
	}
	for pair := range slices.Chunk(more, 2) {
		v.Set(pair[0], pair[1])
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
