package openapitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"poold/internal/testkit"
)

const small = `
openapi: 3.1.0
info: {title: small, version: "1"}
paths:
  /things/{name}:
    get:
      responses:
        '200':
          description: a thing
          headers: {Cache-Control: {required: true, schema: {const: no-store}}}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/Thing'}
            text/plain: {schema: {type: string}}
        '204': {description: nothing}
        '503': {$ref: '#/components/responses/Down'}
    post:
      requestBody:
        content:
          application/json:
            schema: {type: object, additionalProperties: false, properties: {n: {type: integer}}}
      responses:
        '204': {description: done}
  /things/{name}/parts: {get: {responses: {'204': {description: parts}}}}
  /things/all: {get: {responses: {'204': {description: literal}}}}
  /rest/{path}: {get: {responses: {'204': {description: rest}}}}
components:
  responses:
    UnknownPath:
      content: {application/problem+json: {schema: {allOf: [{$ref: '#/components/schemas/Problem'}, {properties: {code: {enum: [not_found]}}}]}}}
    WrongMethod:
      content: {application/problem+json: {schema: {allOf: [{$ref: '#/components/schemas/Problem'}, {properties: {code: {enum: [method_not_allowed]}}}]}}}
    Down:
      content: {application/problem+json: {schema: {allOf: [{$ref: '#/components/schemas/Problem'}, {properties: {code: {enum: [down, busy]}}}]}}}
  schemas:
    Named: {type: object, required: [name], properties: {name: {type: string}}}
    Thing:
      allOf: [{$ref: '#/components/schemas/Named'}]
      unevaluatedProperties: false
      properties: {at: {type: string, format: date-time}}
    Problem: {type: object, required: [code], additionalProperties: false, properties: {code: {type: string}}}
`

// TestEachKindOfMistakeIsReported: the check accepts the declared responses, and names the
// mistake of every other response.
func TestEachKindOfMistakeIsReported(t *testing.T) {
	d, err := Load([]byte(small))
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
		{name: "plain text", path: "/things/one", status: 200, kind: "text/plain", body: "one"},
		{name: "HEAD is not GET", method: "HEAD", path: "/things/one", status: 200, kind: thing, wrong: "does not declare"},
		{name: "no body", path: "/things/one", status: 204},
		{name: "an undeclared body", path: "/things/one", status: 204, kind: thing, body: "{}", wrong: "undeclared body"},
		{name: "an undeclared field", path: "/things/one", status: 200, kind: thing, body: `{"name":"one","size":3}`, wrong: "/size: not declared"},
		{name: "a missing field", path: "/things/one", status: 200, kind: thing, body: `{}`, wrong: "name"},
		{name: "a wrong type", path: "/things/one", status: 200, kind: thing, body: `{"name":7}`, wrong: "/name: got number, want string"},
		{name: "a wrong format", path: "/things/one", status: 200, kind: thing, body: `{"name":"one","at":"now"}`, wrong: "/at:"},
		{name: "no JSON", path: "/things/one", status: 200, kind: thing, body: `{`, wrong: "EOF"},
		{name: "an undeclared media type", path: "/things/one", status: 200, kind: "text/html", wrong: `"text/html; charset=utf-8" is not declared`},
		{name: "no media type", path: "/things/one", status: 200, wrong: `"" is not declared`},
		{name: "an undeclared status", path: "/things/one", status: 418, wrong: "GET /things/{name}: status 418 is not declared"},
		{name: "a code", path: "/things/one", status: 503, kind: problem, body: `{"code":"busy"}`},
		{name: "a code of another status", path: "/things/one", status: 503, kind: problem, body: `{"code":"not_found"}`, wrong: "/code: value must be one of 'down', 'busy'"},
		{name: "a wrong header", path: "/things/cached", status: 200, kind: thing, body: `{"name":"one"}`, wrong: "header Cache-Control"},
		{name: "a missing header", path: "/things/bare", status: 200, kind: thing, body: `{"name":"one"}`, wrong: "the header Cache-Control is missing"},
		{name: "no request id", path: "/things/anonymous", status: 204, wrong: "the header X-Request-Id is missing"},
		{name: "an undeclared route", path: "/other", status: 200, kind: thing, body: `{"name":"one"}`, wrong: "a path that is not declared"},
		{name: "an unknown path", path: "/other", status: 404, kind: problem, body: `{"code":"not_found"}`},
		{name: "an unknown path with another code", path: "/other", status: 404, kind: problem, body: `{"code":"down"}`, wrong: "/code:"},
		{name: "an undeclared method", method: "DELETE", path: "/things/one", status: 204, wrong: "a method that /things/{name} does not declare"},
		{name: "a wrong method", method: "DELETE", path: "/things/one", status: 405, kind: problem, body: `{"code":"method_not_allowed"}`},
		{name: "an accepted request", method: "POST", path: "/things/one", sent: `{"n":1}`, status: 204},
		{name: "an accepted field that is not declared", method: "POST", path: "/things/one", sent: `{"m":1}`, status: 204, wrong: "the accepted body"},
		{name: "a literal before a parameter", path: "/things/all", status: 204},
		{name: "the rest of a path", path: "/rest/a/b", status: 204},
		{name: "an empty rest", path: "/rest/", status: 204, wrong: "a path that is not declared"},
		{name: "a longer path", path: "/things/one/two", status: 204, wrong: "a path that is not declared"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://poold.example.com"+c.path, strings.NewReader(c.sent))
		testkit.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response := &http.Response{StatusCode: c.status, Header: http.Header{"X-Request-Id": {"some-id"}}, ContentLength: int64(len(c.body)), Request: request}
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

// failures records the failures of a test.
type failures struct {
	testing.TB

	texts    []string
	cleanups []func()
}

func (f *failures) Helper()          {}
func (f *failures) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, strings.TrimSpace(format))
	_ = args
}

// TestWatchFailsTheTestOfTheServer: a wrong response fails the test that named the server, until
// the test ends. Responses of other servers, and bodies that nobody reads, are not checked.
func TestWatchFailsTheTestOfTheServer(t *testing.T) {
	answer := `{"status":"ok"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Request-Id", "some-id")
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	var watch Watch
	client := &http.Client{Transport: watch.Transport(server.Client().Transport)}
	ask := func(path string, read bool) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		testkit.NoError(t, err)
		response, err := client.Do(request)
		testkit.NoError(t, err)
		if read {
			_, _ = io.Copy(io.Discard, response.Body)
		}
		_ = response.Body.Close()
	}
	test := &failures{TB: t}
	ask("/nowhere", true)
	watch.Add(test, server.URL)
	ask("/healthz", true)
	if len(test.texts) != 0 {
		t.Errorf("a right response: %s", test.texts)
	}
	answer = `{"status":"bad"}`
	ask("/healthz", false)
	if len(test.texts) != 0 {
		t.Errorf("a body that was not read: %s", test.texts)
	}
	ask("/healthz", true)
	ask("/nowhere", false)
	if len(test.texts) != 2 {
		t.Errorf("a wrong body and a wrong path: %d failures %s", len(test.texts), test.texts)
	}
	for _, cleanup := range test.cleanups {
		cleanup()
	}
	ask("/nowhere", true)
	if len(test.texts) != 2 {
		t.Errorf("after the end: %s", test.texts)
	}
	client.CloseIdleConnections()
}

// BenchmarkCheck measures a check of a status document with three targets.
func BenchmarkCheck(b *testing.B) {
	body, err := os.ReadFile("../../testdata/status.json")
	testkit.NoError(b, err)
	response := &http.Response{
		StatusCode: http.StatusOK, Request: httptest.NewRequest(http.MethodGet, "/status.json", nil),
		Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {"some-id"}},
	}
	for b.Loop() {
		testkit.NoError(b, Check(response, body))
	}
}
