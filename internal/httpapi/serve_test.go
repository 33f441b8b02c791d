package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

func TestUnknownPathsAndMethodsAreRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, path := range []string{
		"/pool", "/pool/", "/pool/staging-login/", "/pool/staging-login/warm", "/pool/staging-login/token/tok1",
		"/pool/staging-login/token/tok1/", "/pool/staging-login/token/", "/solve/", "/solve/x", "/solve/x/report/",
		"/status/stream", "/history", "/history/", "/history/usage/", "/history/arrivals/staging-login", "/history/key/",
		"/history/site/", "/history/day/", "/history/order/", "/callback", "/callback/x/y", "/callback/x/y/", "/createTask/x",
		"/getTaskresult", "/dead-letters/", "/status.html", "/..%2fstatus", "/canary-query",
	} {
		for _, method := range []string{"GET", "POST"} {
			checkProblem(t, method+" "+path, d.ask(t, method, path), 404, CodeNotFound, "")
		}
	}
	eachCase(t, "methods.txt", func(path, allow string) {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE", "BREW"} {
			if method == allow {
				continue
			}
			a := d.ask(t, method, path)
			checkProblem(t, method+" "+path, a, 405, CodeMethod, "")
			testkit.Equal(t, a.asked, a.header.Get("Allow"), "OPTIONS, "+allow)
		}
		if head := d.ask(t, "HEAD", path); strings.Contains(allow, "HEAD") {
			head.check(t, "a HEAD like a GET", 200)
		} else {
			head.check(t, "a HEAD, which takes and changes nothing", 405)
		}
	})
}

func TestBodiesAreRefusedIfUnused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 10)
	const isText = "Content-Type: text/plain"
	for _, c := range []struct {
		name, kind, body string
		code             Code // "" = the body is accepted
	}{
		{"none", "X: y", "", ""},
		{"white space", isText, " \n", ""},
		{"an empty object", isJSON + "; charset=utf-8", "{ }", ""},
		{"null", isJSON, "null", ""},
		{"an empty object of no type", "X: y", "{}", CodeBadRequest},
		{"a form", isForm, "wait=20s", CodeBadRequest},
		{"JSON as text", isText, "{}", CodeBadRequest},
		{"a question", isJSON, `{"wait":"20s"}`, CodeBadRequest},
		{"no JSON", isJSON, `{"wait`, CodeBadRequest},
		{"two documents", isJSON, `{}{}`, CodeBadRequest},
		{"the largest", isJSON, "{" + strings.Repeat(" ", 65534) + "}", ""},
		{"one more", isJSON, "{" + strings.Repeat(" ", 65535) + "}", CodeTooLarge},
	} {
		// The second body is of unknown length.
		for _, body := range []io.Reader{strings.NewReader(c.body), io.MultiReader(strings.NewReader(c.body))} {
			a := d.send(t, "POST", "/pool/staging-login/token", body, c.kind)
			if c.code == "" {
				a.check(t, c.name, 200)
				continue
			}
			checkProblem(t, c.name, a, NewProblem(c.code, "").Status, c.code, "staging-login")
		}
	}
}

// TestServerLimitsSlowClients tests the limits of the server for slow clients and for large requests.
func TestServerLimitsSlowClients(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	s := d.HTTPServer()
	if s.ReadTimeout != 5*time.Second || s.WriteTimeout != 10*time.Second || s.IdleTimeout != 60*time.Second ||
		s.MaxHeaderBytes != 16<<10 {
		t.Errorf("limits of the server: %+v", s)
	}
	if s.Protocols.HTTP2() || s.Protocols.UnencryptedHTTP2() {
		t.Error("HTTP/2 is on: bytes of several answers would mix on a connection")
	}
	conn := dial(t, d.addr)
	// The server may close the connection before it has read the whole request.
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 32<<10)+
		"\r\n\r\n")
	if got, _ := io.ReadAll(conn); len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 431 ") {
		t.Errorf("32 KiB of headers: %s", got)
	}
}

// TestPanicIsOne500: a panic in a handler causes one response 500 and one line in the log.
func TestPanicIsOne500(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.stock.before = func(context.Context, string) error { panic("a bug") }
	for range 2 {
		a := d.ask(t, "GET", "/pool/staging-login/token")
		checkProblem(t, "panic", a, 500, CodeInternal, "staging-login")
		if strings.Contains(a.body, "a bug") || strings.Contains(a.body, ".go") {
			t.Errorf("the answer says what the log is for: %s", a.body)
		}
	}
	if log := d.logged.String(); strings.Count(log, "panic: a bug") != 2 || !strings.Contains(log, "serve_test.go") {
		t.Errorf("the log does not say where: %s", log)
	}
	d.stock.before = func(context.Context, string) error { panic("another") }
	for range 2 { // a panic in a goroutine of the status must not end the daemon
		d.Status.Changed()
		d.ask(t, "GET", "/status.json").check(t, "panic in the status", 200)
	}
	testkit.Equal(t, "panics in the log", strings.Count(d.logged.String(), "panic while reading the stock"), 2)
}

// TestPanicAfterTheAnswerBeganEndsTheConnection: a panic ends the connection if a part of the
// response was already sent.
func TestPanicAfterTheAnswerBeganEndsTheConnection(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.handler.(*echo.Echo).GET("/half", func(c echo.Context) error {
		_, _ = io.WriteString(c.Response(), "half")
		c.Response().Flush()
		panic("a bug")
	})
	conn := dial(t, d.addr)
	write(t, conn, "GET /half HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("read %q as if it were whole", body)
	}
}

// TestLogHasOneLinePerRequest: the log contains one debug line per request, and a warning about the
// wrong key, without any text that the client chose freely.
func TestLogHasOneLinePerRequest(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.ask(t, "GET", "/pool/staging-login/token?min_ttl=canary-query&canary-query=1", bearer(keyAll),
		"X-Canary: canary-query")
	d.ask(t, "GET", "/pool/canary-query/token", bearer(keyAll))
	d.ask(t, "GET", "/canary-query", bearer(keyAll))
	d.ask(t, "GET", "/pool/checkout/token", bearer("canary-key-unknown"))
	d.ask(t, "GET", "/pool/checkout/token", bearer(keyAll))
	testkit.Within(t, 20*time.Second, "the last line",
		func() bool { return d.logged.Count(`"level":"DEBUG"`, `"msg":"request"`) == 5 })
	for _, part := range []string{`"route":"/pool/:target/token","status":400`, `"target":"checkout","key":"all"`,
		`"status":404`, `"status":401`, `"level":"WARN"`} {
		testkit.AtLeast(t, "lines with "+part, d.logged.Count(part), 1)
	}
	testkit.Equal(t, "lines", strings.Count(d.logged.String(), "\n"), 6) // start searches them for canaries
}

type timedWriter struct {
	*httptest.ResponseRecorder

	deadline time.Time
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error { w.deadline = t; return nil }

// TestLongWaitLeavesTimeForTheAnswer: after a long wait there is still enough time to write the
// response.
func TestLongWaitLeavesTimeForTheAnswer(t *testing.T) {
	for name, c := range map[string]struct{ method, path, body string }{
		"a take":        {"GET", "/pool/checkout/token?wait=60s", ""},
		"a solve":       {"POST", "/solve", fmt.Sprintf(guestBody, `,"timeout":"60s"`)},
		"a reload":      {"POST", "/-/reload", ""},
		"a replay":      {"POST", "/dead-letters/replay", ""},
		"a slow status": {"GET", "/status.json", ""},
		"a slow page":   {"GET", "/status", ""},
		"a slow target": {"GET", "/pool/checkout", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, solvingSet(t, allKeys()...), func(t *testing.T, d *daemon) {
				const late = 20 * time.Second
				d.solver.waits, d.solver.err = true, &pool.EmptyError{}
				d.config.reload = func(context.Context) error { time.Sleep(late); return nil }
				d.buyer.replay = func(context.Context) (map[string]int, error) { time.Sleep(late); return nil, nil }
				if c.method == "GET" && !strings.Contains(c.path, "token") {
					d.buyer.providers = func(context.Context) []purchase.ProviderStatus { time.Sleep(late); return nil }
				}
				began := time.Now()
				w := &timedWriter{httptest.NewRecorder(), began.Add(WriteLimit)}
				d.handler.ServeHTTP(w, d.request(t, c.method, c.path, strings.NewReader(c.body), bearer(keyAll), isJSON,
					"Accept: text/html"))
				if took, left := time.Since(began), time.Until(w.deadline); took < late || left <= 0 || left > WriteLimit {
					t.Errorf("%d after %s, with %s left: %s", w.Code, took, left, w.Body)
				}
			})
		})
	}
}
