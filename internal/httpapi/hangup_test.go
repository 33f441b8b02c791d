package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

func reset(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	testkit.NoError(t, errors.Join(conn.SetLinger(0), conn.Close()))
}

// requestLine is the beginning of a request for a token, up to the header Host.
const requestLine = "GET /pool/staging-login/token?wait=20s HTTP/1.1\r\nHost: localhost\r\n"

// TestTokenOfALeavingCallerReturnsOnce: a token for a caller that is hanging up returns to the
// stock exactly once, unless the request has an Idempotency-Key.
func TestTokenOfALeavingCallerReturnsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		leave  func(*testing.T, *net.TCPConn)
		back   int
	}{
		"a reset":                  {"", reset, 1},
		"a close":                  {"", func(t *testing.T, c *net.TCPConn) { _ = c.Close() }, 1},
		"a close with a key":       {"Idempotency-Key: k1\r\n", func(t *testing.T, c *net.TCPConn) { _ = c.Close() }, 0},
		"a close only for sending": {"", func(t *testing.T, c *net.TCPConn) { _ = c.CloseWrite() }, 1},
		"a reset after pipelining": {"", reset, 1},
		"pipelining with a key":    {"Idempotency-Key: k1\r\n", reset, 0},
		"a reset after a body":     {"Content-Length: 2\r\nContent-Type: application/json\r\n", reset, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, sampleSet(), nil, nil)
			taking, left := make(chan struct{}), make(chan struct{})
			pipelined := strings.Contains(name, "pipelin")
			d.fill(t, "staging-login", 1)
			d.stock.taken = func(ctx context.Context) {
				close(taking)
				<-left
				if !pipelined { // after pipelining, net/http has read a byte of the next request and does not notice the hang-up
					<-ctx.Done()
				}
			}
			conn := dial(t, d.addr)
			request := requestLine + c.header + "\r\n"
			if strings.Contains(c.header, "Content-Length") {
				request += "{}"
			}
			if pipelined {
				request += "G"
			}
			write(t, conn, request)
			<-taking
			if pipelined {
				time.Sleep(20 * time.Millisecond) // lets net/http read the byte
			}
			c.leave(t, conn)
			close(left)
			testkit.Within(t, 20*time.Second, "the request is over",
				func() bool { return strings.Contains(d.logged.String(), `"status":499`) })
			d.checkGivenBack(t, 1, c.back)
			if strings.Contains(name, "only") { // the caller can still read, and must receive nothing
				if got, err := io.ReadAll(conn); len(got) > 0 {
					t.Errorf("read %q, %v", got, err)
				}
			}
		})
	}
}

// checkGivenBack checks how many tokens were returned. The argument had is the number of fresh
// tokens before the hand-out. The argument back is the number of expected returns.
func (d *daemon) checkGivenBack(t *testing.T, had, back int) {
	t.Helper()
	got := d.stock.putBack(t, d.target("staging-login"), back)
	if n := d.stock.countCalls("return"); n != back || got.Counters.Returned != int64(back) || got.Fresh != had-1+back {
		t.Errorf("given back %d times, want %d; the stock says %+v", n, back, got)
	}
}

// TestCallerThatHangsUpTakesNothing: if the stock notices the hang-up before it removes a token, it
// keeps the token. No token is then returned, and no response is sent.
func TestCallerThatHangsUpTakesNothing(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	conn := dial(t, d.addr)
	write(t, conn, requestLine+"\r\n")
	testkit.Within(t, 20*time.Second, "it waits",
		func() bool { return d.stock.readStock(t, d.target("staging-login")).Waiting == 1 })
	testkit.NoError(t, conn.CloseWrite())
	if got, err := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("read %q, %v", got, err)
	}
	testkit.Within(t, 20*time.Second, "the request is counted", func() bool {
		body := d.ask(t, "GET", "/metrics").body
		return strings.Contains(body, `poold_http_requests_total{code="499"} 1`) &&
			strings.Contains(body, `poold_key_requests_total{key="-",outcome="hung_up"} 1`)
	})
	testkit.Equal(t, "gave back what it never had", d.stock.countCalls("return"), 0)
	testkit.Within(t, 20*time.Second, "its ticket goes",
		func() bool { return d.stock.readStock(t, d.target("staging-login")).Waiting == 0 })
	d.fill(t, "staging-login", 1)
	testkit.Equal(t, "tokens in stock", d.stock.readStock(t, d.target("staging-login")).Fresh, 1)
}

// brokenConn is a connection that writes a limited number of bytes and then fails. The field room
// is the number of bytes that it can still write.
type brokenConn struct {
	net.Conn
	room int
}

func (c *brokenConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), c.room)])
	c.room -= n
	if err == nil && n < len(b) {
		err = errors.New("broken for the test")
	}
	return n, err
}

// TestTokenReturnsIfNoByteWasSent: a token returns to the stock if no byte of the response left the
// process. If a part of the response was sent, the token stays handed out. The audit says both.
func TestTokenReturnsIfNoByteWasSent(t *testing.T) {
	dir := redistest.Certificates(t)
	certificate, err := tls.LoadX509KeyPair(dir+"/cert.pem", dir+"/key.pem")
	testkit.NoError(t, err)
	for _, c := range []struct {
		room      int // bytes that leave after the take
		header    string
		length    int  // length of the token's text; net/http buffers 4 KiB
		uncounted bool // the bytes of the connection are not counted
		tls       bool
		back      int
	}{
		{room: 0, back: 1},
		{room: 0, back: 1, length: 9000},
		{room: 0, back: 1, tls: true},
		{room: 0, back: 0, header: "Idempotency-Key: k\r\n"},
		{room: 0, back: 0, uncounted: true},
		{room: 1, back: 0},
		{room: 100, back: 0},
		{room: 100, back: 0, tls: true},
		{room: 5000, back: 0, length: 9000},
		{room: 1 << 20, back: 0},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			var served *brokenConn
			wrap := func(conn net.Conn) net.Conn { served = &brokenConn{conn, 1 << 20}; return served }
			d := start(t, sampleSet(), wrap, func(s *http.Server) {
				if c.uncounted {
					s.ConnContext = nil
				}
				if c.tls {
					s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
				}
			})
			d.stock.taken = func(context.Context) { served.room = c.room }
			d.stock.landText(t, d.stock.order(t, d.target("staging-login")), tokenValue+strings.Repeat("x", c.length), 0)
			var conn net.Conn = dial(t, d.addr)
			if c.tls {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			write(t, conn, requestLine+c.header+"Connection: close\r\n\r\n")
			if got, _ := io.ReadAll(conn); len(got) > c.room { // net/http resets an unfinished answer
				t.Errorf("read %d bytes", len(got))
			}
			testkit.Within(t, 20*time.Second, "the request is over",
				func() bool { return strings.Contains(d.logged.String(), `"route"`) })
			d.checkGivenBack(t, 1, c.back)
			want := []history.Action{history.Taken, history.Returned}[:1+c.back]
			var got []history.Action
			for _, h := range d.noted(t) {
				if got = append(got, h.Action); h.Key != "-" {
					t.Errorf("a caller without a key is %+v", h)
				}
			}
			testkit.Equal(t, "in the audit", fmt.Sprint(got), fmt.Sprint(want))
		})
	}
}
