package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// connection is a connection to a daemon that the client keeps open.
type connection struct {
	t *testing.T
	net.Conn
	answers *bufio.Reader
}

func connect(t *testing.T, p *process) connection {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	testkit.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return connection{t, conn, bufio.NewReader(conn)}
}

// send writes a request and does not wait for the response.
func (c connection) send(path string) {
	c.t.Helper()
	_, err := io.WriteString(c.Conn, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	testkit.NoError(c.t, err)
}

// read reads a response. The second result reports whether the server closes the connection after
// this response.
func (c connection) read() (status int, last bool) {
	c.t.Helper()
	response, err := http.ReadResponse(c.answers, nil)
	testkit.NoError(c.t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	testkit.NoError(c.t, err)
	return response.StatusCode, response.Close
}

// waitForClose waits until the server closes a connection that has no request in flight.
func (c connection) waitForClose(what string) {
	c.t.Helper()
	if n, err := c.answers.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		c.t.Errorf("%s: read %d bytes, %v instead of the end", what, n, err)
	}
}

// During the first second of a stop, requests on new and on idle connections get a response. After
// each response the server closes the connection. After this second, it closes the idle
// connections. A caller that waits for a token gets a 503 at once, and its wait does not delay the end.
func TestConnectionsOfAStop(t *testing.T) {
	t.Parallel()
	const token = "/pool/login/token?wait=60s"
	path := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, path, strings.Replace(serverless, "concurrency: 5", "concurrency: 5, first_poll: 50s", 1))
	p := startPoold(t, path, "")

	idle, used, pending := connect(t, p), connect(t, p), connect(t, p)
	pending.send(token)
	testkit.Within(t, 20*time.Second, "the caller to wait", func() bool { return p.target("login").Waiting == 1 })
	for _, c := range []connection{idle, used} {
		c.send("/no-such-path")
		if status, last := c.read(); status != http.StatusNotFound || last {
			t.Fatalf("before the stop: %d, last %v", status, last)
		}
	}
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	testkit.Within(t, 20*time.Second, "the stop to begin",
		func() bool { return strings.Contains(p.Output.String(), "msg=stopping") })
	if status, last := pending.read(); status != http.StatusServiceUnavailable || !last {
		t.Errorf("the pending caller got %d, last %v", status, last)
	}
	used.send(token)
	if status, last := used.read(); status != http.StatusServiceUnavailable || !last {
		t.Errorf("a request on a connection that was idle: %d, last %v", status, last)
	}
	used.waitForClose("a connection that was idle")
	fresh := connect(t, p)
	fresh.send("/no-such-path")
	if status, last := fresh.read(); status != http.StatusNotFound || !last {
		t.Errorf("a request on a new connection: %d, last %v", status, last)
	}
	fresh.waitForClose("a new connection")
	idle.waitForClose("a connection that stayed idle")
	testkit.AtLeast(t, "time after SIGTERM of a connection that stayed idle", time.Since(began), time.Second)
	testkit.NoError(t, testkit.Receive(t, 15*time.Second, "the end of poold after that of its last connection", p.Ended))
}
