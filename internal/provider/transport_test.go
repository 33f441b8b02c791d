package provider

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":     5 * time.Second,
		"1":    5 * time.Second, // the header does not make the delay shorter than this
		"20":   20 * time.Second,
		"2.5":  5 * time.Second,
		"3600": time.Minute,
		"1e99": time.Minute,
		"-5":   5 * time.Second,
		"soon": 5 * time.Second,
		time.Now().Add(40 * time.Second).UTC().Format(http.TimeFormat): 40 * time.Second,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat):        time.Minute,
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       5 * time.Second,
	} {
		c, _ := newServedClient(t, targets.Provider{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		for _, err := range []error{pollOne(t, c), submitOne(t, c)} {
			e := faultOf(t, err)
			// A date in the header has whole seconds, and time passes during the test. Jitter lengthens
			// the pause by at most 20 %.
			if e.Class != Capacity || e.Unknown || e.Delay < want-2*time.Second || e.Delay > want+want/5 {
				t.Errorf("Retry-After %q: %v after %v, want %v", header, err, e.Delay, want)
			}
		}
	}
}

// If a call could not be sent, the error is a capacity fault, and nothing was bought.
func TestACallThatWasNotSentBuysNothing(t *testing.T) {
	refused := listen(t)
	_ = refused.Close()
	secure := httptest.NewUnstartedServer(answering(200, "OK|5"))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // hides the expected error of the handshake
	secure.StartTLS()
	t.Cleanup(secure.Close)
	old := httptest.NewUnstartedServer(answering(200, "OK|5"))
	old.Config.ErrorLog = secure.Config.ErrorLog
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	t.Cleanup(old.Close)
	plain := httptest.NewServer(answering(200, "OK|5"))
	t.Cleanup(plain.Close)

	for name, url := range map[string]string{
		"refused":         "http://" + refused.Addr().String(),
		"bad certificate": secure.URL,
		"old TLS":         old.URL,
		"no TLS":          "https" + strings.TrimPrefix(plain.URL, "http"),
		"no such host":    "http://no-such-host.invalid",
	} {
		c, j := newClient(t, targets.Provider{URL: url})
		transport, ok := c.wire.(*http.Transport)
		if !ok {
			t.Fatal("the client has no transport of its own")
		}
		if name == "no such host" {
			// This avoids the resolver of the test machine.
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}
			}
		}
		if name == "old TLS" {
			transport.TLSClientConfig.InsecureSkipVerify = true
		}
		e := faultOf(t, submitOne(t, c))
		if e.Class != Capacity || e.Unknown || e.Code != "unreachable" || e.Err == nil || e.Delay < time.Second ||
			e.Delay > 5*time.Second {
			t.Errorf("%s: %v (unknown %v) after %v", name, e, e.Unknown, e.Delay)
		}
		testkit.Equal(t, name+": observed", j.last(), "submit transport")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	return l
}

// rawServer calls the function handle for each connection. The argument next of handle is a
// function that reads the next request on the connection. rawServer also counts the requests.
func rawServer(t *testing.T, handle func(conn net.Conn, next func() bool)) (url string, requests *atomic.Int32) {
	t.Helper()
	l := listen(t)
	requests = new(atomic.Int32)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				r := bufio.NewReader(conn)
				handle(conn, func() bool {
					req, err := http.ReadRequest(r)
					if err != nil {
						return false
					}
					_, err = io.Copy(io.Discard, req.Body)
					requests.Add(1)
					return err == nil
				})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String(), requests
}

const rawOK = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nOK|5"

// A submit is sent once, wherever its connection breaks, on a new and on a reused connection.
func TestASubmitIsSentOnce(t *testing.T) {
	for name, row := range map[string]struct {
		good   int // number of submits that the server answers before, on the same connection
		handle func(conn net.Conn, next func() bool)
		want   int // total number of requests; -1 = it is unknown whether the last request arrived
	}{
		"read, then cut":      {0, func(_ net.Conn, next func() bool) { next() }, 1},
		"reused, read, cut":   {1, func(_ net.Conn, next func() bool) { next() }, 2},
		"reused thrice":       {3, func(_ net.Conn, next func() bool) { next() }, 4},
		"cut before reading":  {0, func(net.Conn, func() bool) {}, -1},
		"reset after reading": {1, func(conn net.Conn, next func() bool) { next(); reset(conn) }, 2},
		"half an answer": {1, func(conn net.Conn, next func() bool) {
			next()
			_, _ = io.WriteString(conn, rawOK[:len(rawOK)-2])
		}, 2},
		"half a status line": {1, func(conn net.Conn, next func() bool) { next(); _, _ = io.WriteString(conn, "HTTP/1") }, 2},
		"no HTTP at all": {1, func(conn net.Conn, next func() bool) {
			next()
			_, _ = io.WriteString(conn, "OK|5\r\n\r\n")
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := rawServer(t, func(conn net.Conn, next func() bool) {
				for range row.good {
					if !next() {
						return
					}
					_, _ = io.WriteString(conn, rawOK)
				}
				row.handle(conn, next)
			})
			c, _ := newClient(t, targets.Provider{URL: url})
			for range row.good {
				testkit.NoError(t, submitOne(t, c))
			}
			e := faultOf(t, submitOne(t, c))
			time.Sleep(50 * time.Millisecond) // a repeated submit would arrive within this time
			n := requests.Load()
			if row.want >= 0 && (int(n) != row.want || !e.Unknown) {
				t.Errorf("%d requests and %v (unknown %v), want %d and unknown", n, e, e.Unknown, row.want)
			}
			if row.want < 0 && (n > 1 || n == 1 && !e.Unknown) {
				t.Errorf("%d requests and %v (unknown %v)", n, e, e.Unknown)
			}
		})
	}
}

// reset makes the connection send a TCP reset when it is closed.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}
