package openapitest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// TestEachKindOfMistakeIsReported: the check accepts the declared responses, and names the
// mistake of every other response.
func TestEachKindOfMistakeIsReported(t *testing.T) {
	small, err := os.ReadFile("testdata/small.yaml")
	testkit.NoError(t, err)
	d, err := Load(small)
	testkit.NoError(t, err)
	const thing, problem = "application/json; charset=utf-8", "application/problem+json"
	for _, c := range []struct {
		name, method, path string
		sent               string // the body of the request
		status             int
		kind, body         string
		wrong              string // part of the error; "" = the response is right
	}{
		{name: "a thing", path: "/things/one", status: 200, kind: thing, body: `{"name":"one","at":"2026-01-02T03:04:05Z"}`},
		{name: "an undeclared body", path: "/things/one", status: 204, kind: thing, body: "{}", wrong: "undeclared body"},
		{name: "an undeclared field", path: "/things/one", status: 200, kind: thing, body: `{"name":"one","size":3}`,
			wrong: "size"},
		{name: "a wrong type", path: "/things/one", status: 200, kind: thing, body: `{"name":7}`,
			wrong: "got number, want string"},
		{name: "an undeclared media type", path: "/things/one", status: 200, kind: "text/html",
			wrong: `"text/html; charset=utf-8" is not declared`},
		{name: "an undeclared status", path: "/things/one", status: 418,
			wrong: "GET /things/{name}: status 418 is not declared"},
		{name: "a code", path: "/things/one", status: 503, kind: problem, body: `{"code":"busy"}`},
		{name: "a wrong header", path: "/things/cached", status: 200, kind: thing, body: `{"name":"one"}`,
			wrong: "header Cache-Control"},
		{name: "a missing header", path: "/things/bare", status: 200, kind: thing, body: `{"name":"one"}`,
			wrong: "the header Cache-Control is missing"},
		{name: "no request id", path: "/things/anonymous", status: 204, wrong: "the header X-Request-Id is missing"},
		{name: "an undeclared route", path: "/other", status: 200, kind: thing, body: `{"name":"one"}`,
			wrong: "a path that is not declared"},
		{name: "an unknown path", path: "/other", status: 404, kind: problem, body: `{"code":"not_found"}`},
		{name: "an undeclared method", method: "DELETE", path: "/things/one", status: 204,
			wrong: "a method that /things/{name} does not declare"},
		{name: "a wrong method", method: "DELETE", path: "/things/one", status: 405, kind: problem,
			body: `{"code":"method_not_allowed"}`},
		{name: "an accepted request", method: "POST", path: "/things/one", sent: `{"n":1}`, status: 204},
		{name: "an accepted field that is not declared", method: "POST", path: "/things/one", sent: `{"m":1}`, status: 204,
			wrong: "the accepted body"},
		{name: "a literal before a parameter", path: "/things/all", status: 204},
		{name: "the rest of a path", path: "/rest/a/b", status: 204},
		{name: "an empty rest", path: "/rest/", status: 204, wrong: "a path that is not declared"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://poold.example.com"+c.path,
			strings.NewReader(c.sent))
		testkit.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response := &http.Response{StatusCode: c.status, Header: http.Header{"X-Request-Id": {"some-id"}},
			ContentLength: int64(len(c.body)), Request: request}
		if c.kind != "" {
			response.Header.Set("Content-Type", strings.Replace(c.kind, "text/html", "text/html; charset=utf-8", 1))
		}
		switch c.path {
		case "/things/cached":
			response.Header.Set("Cache-Control", "max-age=1")
		case "/things/bare":
		case "/things/anonymous":
			response.Header.Del("X-Request-Id")
		default:
			response.Header.Set("Cache-Control", "no-store")
		}
		err = d.check(response, []byte(c.body))
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		}
	}
}

// failures counts the failures of a test.
type failures struct {
	testing.TB
	n   int
	end func()
}

func (f *failures) Helper()               {}
func (f *failures) Cleanup(c func())      { f.end = c }
func (f *failures) Errorf(string, ...any) { f.n++ }

// TestWatchFailsTheTestOfTheServer: a wrong response fails the test that named the server, until
// the test ends.
func TestWatchFailsTheTestOfTheServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var watch Watch
	test := &failures{TB: t}
	for i, step := range []func(){func() {}, func() { watch.Add(test, server.URL) }, func() { test.end() }} {
		step()
		client := &http.Client{Transport: watch.Transport(server.Client().Transport)}
		response, err := client.Get(server.URL + "/healthz")
		testkit.NoError(t, err)
		testkit.NoError(t, response.Body.Close())
		testkit.Equal(t, "failures", test.n, min(i, 1))
	}
}
