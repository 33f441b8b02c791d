package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

func TestUnknownPathsAndMethodsAreRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, path := range []string{
		"/pool", "/pool/", "/pool/staging-login/", "/pool/staging-login/warm", "/pool/staging-login/token/tok1", "/pool/staging-login/token/tok1/", "/pool/staging-login/token/",
		"/solve/", "/solve/x", "/solve/x/report/", "/status/stream", "/history", "/history/", "/history/usage/", "/history/arrivals/staging-login", "/history/key/", "/history/site/", "/history/day/", "/history/solve/", "/callback", "/callback/x/y", "/callback/x/y/", "/in.php/", "/createTask/x", "/getTaskresult", "/dead-letters/", "/status.html", "/..%2fstatus", "/canary-query",
	} {
		for _, method := range []string{"GET", "POST"} {
			checkProblem(t, method+" "+path, d.ask(t, method, path), 404, kernel.CodeNotFound, "")
		}
	}
	for path, allow := range map[string]string{
		"/pool/staging-login/token": "GET, POST", "/pool/staging-login": "GET, HEAD", "/pool/staging-login/pause": "POST", "/pool/staging-login/resume": "POST",
		"/status": "GET, HEAD", "/status.json": "GET, HEAD", "/status.css": "GET, HEAD", "/metrics": "GET, HEAD", "/-/reload": "POST",
		"/healthz": "GET, HEAD", "/readyz": "GET, HEAD", "/dead-letters": "GET, HEAD", "/dead-letters/replay": "POST",
		"/history/site/k": "GET, HEAD", "/history/day/2026-01-02": "GET, HEAD", "/history/tasks?status=error": "GET, HEAD", "/history/active": "GET, HEAD", "/history/usage?by=owner": "GET, HEAD", "/history/key/ci": "GET, HEAD",
		"/pool/staging-login/tokens": "DELETE", "/pool/staging-login/token/tok1/report": "POST", "/callback/x/y/z": "GET, POST",
		"/solve": "POST", "/solve/x/report": "POST",
		"/in.php": "GET, POST", "/res.php": "GET, POST", "/createTask": "POST", "/reportIncorrectTokenCaptcha": "POST",
	} {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
			if method == allow {
				continue
			}
			a := d.ask(t, method, path)
			checkProblem(t, method+" "+path, a, 405, kernel.CodeMethod, "")
			equal(t, a.asked, a.header.Get("Allow"), allow)
		}
		if strings.Contains(allow, "HEAD") {
			if a := d.ask(t, "HEAD", path); a.status != 200 || a.body != "" {
				t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
			}
		}
	}
}

func TestBodiesAreRefusedIfUnused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 10)
	for _, c := range []struct {
		name, kind, body string
		status           int
		code             kernel.Code
	}{
		{"none", "", "", 200, ""},
		{"white space", "text/plain", " \n", 200, ""},
		{"an empty object", "application/json; charset=utf-8", "{ }", 200, ""},
		{"null", "application/json", "null", 200, ""},
		{"an empty object of no type", "", "{}", 400, kernel.CodeBadRequest},
		{"a form", "application/x-www-form-urlencoded", "wait=20s", 400, kernel.CodeBadRequest},
		{"JSON as text", "text/plain", "{}", 400, kernel.CodeBadRequest},
		{"a question", "application/json", `{"wait":"20s"}`, 400, kernel.CodeBadRequest},
		{"no JSON", "application/json", `{"wait`, 400, kernel.CodeBadRequest},
		{"two documents", "application/json", `{}{}`, 400, kernel.CodeBadRequest},
		{"the largest", "application/json", "{" + strings.Repeat(" ", 65534) + "}", 200, ""},
		{"one more", "application/json", "{" + strings.Repeat(" ", 65535) + "}", 413, kernel.CodeTooLarge},
	} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(c.body)
			if chunked {
				body = io.MultiReader(body) // a body of unknown length
			}
			var headers []string
			if c.kind != "" {
				headers = append(headers, "Content-Type: "+c.kind)
			}
			a := d.send(t, "POST", "/pool/staging-login/token", body, headers...)
			if c.code == "" && a.status != c.status {
				t.Errorf("%s, chunked %v: %d %s", c.name, chunked, a.status, a.body)
			}
			if c.code != "" {
				checkProblem(t, c.name, a, c.status, c.code, "staging-login")
			}
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// deadlineConn records the write deadline in force at each write.
type deadlineConn struct {
	net.Conn
	now, used atomic.Pointer[time.Time]
}

func (c *deadlineConn) SetWriteDeadline(at time.Time) error {
	c.now.Store(&at)
	return c.Conn.SetWriteDeadline(at)
}

func (c *deadlineConn) Write(b []byte) (int, error) {
	c.used.Store(c.now.Load())
	return c.Conn.Write(b)
}

// TestClientThatDoesNotReadIsCutOff: if a client does not read the response, the server closes the
// connection after WriteLimit, not after the longest wait.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	var last atomic.Pointer[deadlineConn]
	d := start(t, sampleSet(), func(conn net.Conn) net.Conn {
		last.Store(&deadlineConn{Conn: conn})
		return last.Load()
	}, nil)
	d.fill(t, "checkout", 3)
	for _, path := range []string{"/pool/checkout/token", "/pool/none/token", "/status", "/metrics", "/status.css", "/nothing"} {
		d.ask(t, "GET", path)
		if at := last.Load().used.Load(); at == nil || at.IsZero() || time.Until(*at) > 10*time.Second {
			t.Errorf("%s: may be written until %v", path, at)
		}
	}
	// The time of a wait is added to the limit. For the next request, the limit is short again.
	for path, least := range map[string]time.Duration{"/pool/checkout/token?wait=60s": time.Minute, "/pool/checkout/token": 0} {
		d.ask(t, "GET", path)
		at := last.Load().used.Load()
		if left := time.Until(*at); left < least || left > least+10*time.Second {
			t.Errorf("%s: may be written for %v", path, left)
		}
	}
}

// TestServerLimitsSlowClients tests the limits of the server for slow clients and for large requests.
func TestServerLimitsSlowClients(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	s := d.HTTPServer()
	if s.ReadTimeout != 5*time.Second || s.WriteTimeout != 10*time.Second || s.IdleTimeout != 60*time.Second || s.MaxHeaderBytes != 16<<10 {
		t.Errorf("%+v", s)
	}
	if s.Protocols.HTTP2() || s.Protocols.UnencryptedHTTP2() {
		t.Error("HTTP/2 is on: bytes of several answers would mix on a connection")
	}
	conn := dial(t, d.addr)
	// The server may close the connection before it has read the whole request.
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 32<<10)+"\r\n\r\n")
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
		checkProblem(t, "panic", a, 500, kernel.CodeInternal, "")
		if strings.Contains(a.body, "a bug") || strings.Contains(a.body, ".go") {
			t.Errorf("the answer says what the log is for: %s", a.body)
		}
	}
	if log := d.logged.String(); strings.Count(log, "panic: a bug") != 2 || !strings.Contains(log, "serve_test.go") {
		t.Errorf("the log does not say where: %s", log)
	}
	d.stock.before = func(context.Context, string) error { panic("another") }
	for range 2 { // the second request must not wait for ever for the first request
		checkProblem(t, "panic in a snapshot", d.ask(t, "GET", "/status.json"), 500, kernel.CodeInternal, "")
	}
}

// TestPanicAfterTheAnswerBeganEndsTheConnection: a panic ends the connection if a part of the
// response was already sent.
func TestPanicAfterTheAnswerBeganEndsTheConnection(t *testing.T) {
	half := &kernel.Route{Path: "/half", Probe: true, Handle: func(w http.ResponseWriter, _ *http.Request, _ *kernel.Call) error {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("a bug")
	}}
	var d *daemon
	d = start(t, sampleSet(), nil, func(s *http.Server) {
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(half, w, r, nil) })
	})
	conn := dial(t, d.addr)
	write(t, conn, "GET /half HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	noError(t, err)
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("read %q as if it were whole", body)
	}
}

// TestLogHasOneLinePerRequest: the log contains one debug line per request, and a warning about the
// wrong key, without any text that the client chose freely.
func TestLogHasOneLinePerRequest(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.ask(t, "GET", "/pool/staging-login/token?min_ttl=canary-query&canary-query=1", bearer(keyAll), "X-Canary: canary-query")
	d.ask(t, "GET", "/pool/canary-query/token", bearer(keyAll))
	d.ask(t, "GET", "/canary-query", bearer(keyAll))
	d.ask(t, "GET", "/pool/checkout/token", bearer("canary-key-unknown"))
	d.ask(t, "GET", "/pool/checkout/token", bearer(keyAll))
	testkit.Within(t, 20*time.Second, "the last line", func() bool { return strings.Count(d.logged.String(), "\n") >= 6 })
	log := d.logged.String()
	for _, part := range []string{`"route":"/pool/:target/token","status":400`, `"target":"checkout","key":"all"`, `"status":404`, `"status":401`} {
		if !strings.Contains(log, part) {
			t.Errorf("no %s in %s", part, log)
		}
	}
	if strings.Count(log, "\n") != 6 || d.logged.Count(`"level":"DEBUG"`, `"msg":"request"`) != 5 || d.logged.Count(`"level":"WARN"`, "key_hash") != 1 { // the log is searched for canaries when the daemon ends
		t.Errorf("not five debug lines and a warning: %s", log)
	}
}

// TestAnswersOfAStopCloseTheConnection: every response that begins after the stop closes its
// connection, even if the request arrived before the stop.
func TestAnswersOfAStopCloseTheConnection(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	taking, goOn := make(chan struct{}), make(chan struct{})
	d.fill(t, "staging-login", 1)
	d.stock.taken = func(context.Context) {
		close(taking)
		<-goOn
	}
	early := make(chan answer, 1)
	go func() { early <- d.ask(t, "GET", "/pool/staging-login/token?wait=20s") }()
	<-taking
	if a := d.ask(t, "GET", "/healthz"); a.closing {
		t.Error("a connection ends without a stop")
	}
	d.Stopping()
	close(goOn)
	if a := <-early; a.status != 200 || !a.closing {
		t.Errorf("a request that came before: %d, closing %v", a.status, a.closing)
	}
	for _, request := range [][2]string{
		{"GET", "/pool/staging-login/token"}, {"POST", "/pool/staging-login/token"}, {"GET", "/pool/staging-login"}, {"POST", "/pool/staging-login/pause"},
		{"GET", "/status.json"}, {"GET", "/metrics"}, {"GET", "/healthz"}, {"GET", "/readyz"}, {"HEAD", "/healthz"}, {"GET", "/"},
		{"GET", "/no-such-path"}, {"PUT", "/healthz"}, {"GET", "/pool/no-such-target/token"}, {"POST", "/-/reload"}, {"POST", "/callback/solver/o-1/s1"},
	} {
		if a := d.ask(t, request[0], request[1]); !a.closing {
			t.Errorf("%s %s: %d leaves the connection open", request[0], request[1], a.status)
		}
	}
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
					d.buyer.providers = func(context.Context) []purchase.Status { time.Sleep(late); return nil }
				}
				began := time.Now()
				w := &timedWriter{httptest.NewRecorder(), began.Add(kernel.WriteLimit)}
				d.Handler().ServeHTTP(w, d.request(t, c.method, c.path, strings.NewReader(c.body), bearer(keyAll), isJSON, "Accept: text/html"))
				if took, left := time.Since(began), time.Until(w.deadline); took < late || left <= 0 || left > kernel.WriteLimit {
					t.Errorf("%d after %s, with %s left: %s", w.Code, took, left, w.Body)
				}
			})
		})
	}
}
