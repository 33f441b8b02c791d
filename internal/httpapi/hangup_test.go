package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/pool"
)

// dial opens a raw connection to a daemon.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// reset closes a connection so that the other side gets an error at once.
func reset(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	if err := errors.Join(conn.SetLinger(0), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// requestLine begins a request for a token, its Host included.
const requestLine = "GET /pool/staging-login/token?wait=20s HTTP/1.1\r\nHost: localhost\r\n"

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 5s: %s", what)
		}
	}
}

// TestHungUpInTheMomentOfALanding: the stock hands over a token while its
// caller is going. It goes back exactly once, unless a key keeps it.
func TestHungUpInTheMomentOfALanding(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		leave  func(*testing.T, *net.TCPConn)
		back   int
	}{
		"reset":                     {"", reset, 1},
		"closed":                    {"", func(t *testing.T, c *net.TCPConn) { _ = c.Close() }, 1},
		"closed, may come back":     {"Idempotency-Key: k1\r\n", func(t *testing.T, c *net.TCPConn) { _ = c.Close() }, 0},
		"closed only for sending":   {"", func(t *testing.T, c *net.TCPConn) { _ = c.CloseWrite() }, 1},
		"reset, after pipelining":   {"", reset, 1},
		"pipelined, may come back":  {"Idempotency-Key: k1\r\n", reset, 0},
		"with a body, then a reset": {"Content-Length: 2\r\nContent-Type: application/json\r\n", reset, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, sampleSet(), nil, nil)
			taking, left := make(chan struct{}), make(chan struct{})
			pipelined := strings.Contains(name, "pipelin")
			d.stock.take = func(ctx context.Context, _ pool.Request) (pool.Token, error) {
				close(taking)
				<-left
				if !pipelined { // else net/http has read a byte of the next request and notices nothing
					<-ctx.Done()
				}
				return sampleToken(), nil
			}
			conn := dial(t, d.addr)
			request := requestLine + c.header + "\r\n"
			if strings.Contains(c.header, "Content-Length") {
				request += "{}"
			}
			if pipelined {
				request += "G"
			}
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			<-taking
			if pipelined {
				time.Sleep(20 * time.Millisecond) // for net/http to read the byte
			}
			c.leave(t, conn)
			close(left)
			eventually(t, "the request is over", func() bool { return strings.Contains(d.logged.String(), `"status":499`) })
			if got := d.stock.givenBack(); got != c.back {
				t.Errorf("given back %d times, want %d", got, c.back)
			}
			if strings.Contains(name, "only") { // it can still read: there must be nothing
				if got, err := io.ReadAll(conn); len(got) > 0 {
					t.Errorf("read %q, %v", got, err)
				}
			}
		})
	}
}

// TestHungUpWhileWaiting: the stock saw it first and kept the token, so there
// is nothing to give back and nothing to say.
func TestHungUpWhileWaiting(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	taking := make(chan struct{})
	d.stock.take = func(ctx context.Context, _ pool.Request) (pool.Token, error) {
		close(taking)
		<-ctx.Done()
		return pool.Token{}, ctx.Err()
	}
	conn := dial(t, d.addr)
	if _, err := io.WriteString(conn, requestLine+"\r\n"); err != nil {
		t.Fatal(err)
	}
	<-taking
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("read %q, %v", got, err)
	}
	eventually(t, "the request is counted", func() bool {
		return strings.Contains(d.ask(t, "GET", "/metrics").body, `poold_http_requests_total{code="499"} 1`)
	})
	if d.stock.givenBack() != 0 {
		t.Error("gave back what it never had")
	}
}

// brokenListener's connections break when so many bytes of answers were
// written.
type brokenListener struct {
	net.Listener
	room int
}

type brokenConn struct {
	net.Conn
	room int
}

func (l brokenListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &brokenConn{conn, l.room}, err
}

func (c *brokenConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), c.room)])
	c.room -= n
	if err == nil && n < len(b) {
		err = errors.New("broken for the test")
	}
	return n, err
}

// TestWriteFails: the token goes back where not one byte of the answer went
// out, and stays handed out where a part of it did.
func TestWriteFails(t *testing.T) {
	for _, c := range []struct {
		room   int
		header string
		length int // of the token; net/http buffers 4 KiB
		back   int
	}{
		{room: 0, back: 1},
		{room: 0, back: 1, length: 9000},
		{room: 0, back: 0, header: "Idempotency-Key: k\r\n"},
		{room: 1, back: 0},
		{room: 100, back: 0},
		{room: 5000, back: 0, length: 9000},
		{room: 1 << 20, back: 0},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d := start(t, sampleSet(), func(l net.Listener) net.Listener { return brokenListener{l, c.room} }, nil)
			d.stock.take = func(context.Context, pool.Request) (pool.Token, error) {
				token := sampleToken()
				token.Value += strings.Repeat("x", c.length)
				return token, nil
			}
			conn := dial(t, d.addr)
			if _, err := io.WriteString(conn, requestLine+c.header+"Connection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if got, _ := io.ReadAll(conn); len(got) > c.room { // net/http resets what it could not finish
				t.Errorf("read %d bytes", len(got))
			}
			eventually(t, "the request is over", func() bool { return strings.Contains(d.logged.String(), `"route"`) })
			if got := d.stock.givenBack(); got != c.back {
				t.Errorf("given back %d times, want %d", got, c.back)
			}
		})
	}
}

// TestNobodyCounts: behind a server without our listener a failed write proves
// nothing, so the token stays handed out.
func TestNobodyCounts(t *testing.T) {
	d := start(t, sampleSet(), func(l net.Listener) net.Listener { return brokenListener{l, 0} }, func(s *http.Server) { s.ConnContext = nil })
	conn := dial(t, d.addr)
	if _, err := io.WriteString(conn, requestLine+"\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(conn)
	if n, _ := d.stock.asked(); n != 1 || d.stock.givenBack() != 0 {
		t.Errorf("%d takes, %d given back", n, d.stock.givenBack())
	}
}

// TestKeptAliveConnection: bytes of an earlier answer on the connection are
// not bytes of this one.
func TestKeptAliveConnection(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	var takes atomic.Int32
	d.stock.take = func(ctx context.Context, _ pool.Request) (pool.Token, error) {
		if takes.Add(1) == 2 {
			<-ctx.Done()
		}
		return sampleToken(), nil
	}
	conn := dial(t, d.addr)
	if _, err := io.WriteString(conn, requestLine+"\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if _, err := io.WriteString(conn, requestLine+"\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second take", func() bool { return takes.Load() == 2 })
	reset(t, conn)
	eventually(t, "the second token is back", func() bool { return d.stock.givenBack() == 1 })
}

// TestManyHangUps: callers leave at any moment; no token is both received and
// given back.
func TestManyHangUps(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	var minted atomic.Int64
	d.stock.take = func(ctx context.Context, _ pool.Request) (pool.Token, error) {
		time.Sleep(rand.N(2 * time.Millisecond)) //nolint:gosec // a test's dice
		token := sampleToken()
		token.ID = fmt.Sprint(minted.Add(1))
		return token, nil
	}
	var (
		callers  sync.WaitGroup
		mu       sync.Mutex
		received = map[string]bool{}
	)
	for range 200 {
		callers.Go(func() {
			conn := dial(t, d.addr)
			defer func() { _, _ = conn.SetLinger(0), conn.Close() }()
			if _, err := io.WriteString(conn, requestLine+"\r\n"); err != nil {
				t.Error(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(rand.N(8 * time.Millisecond))) //nolint:gosec // a test's dice
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return // left before the answer
			}
			defer func() { _ = response.Body.Close() }()
			var token struct{ ID string }
			if json.NewDecoder(response.Body).Decode(&token) == nil {
				mu.Lock()
				received[token.ID] = true
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	eventually(t, "all requests are over", func() bool {
		n, _ := d.stock.asked()
		return strings.Count(d.logged.String(), `"status":`) == n
	})
	if len(received) == 0 || len(d.stock.returned) == 0 {
		t.Fatalf("%d received, %d given back: this shows nothing", len(received), len(d.stock.returned))
	}
	for _, token := range d.stock.returned {
		if received[token.ID] {
			t.Errorf("token %s was received and given back", token.ID)
		}
	}
	t.Logf("%d minted, %d received, %d given back", minted.Load(), len(received), len(d.stock.returned))
}
