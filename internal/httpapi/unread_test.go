package httpapi

import (
	"fmt"
	"net"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/testkit"
)

// idleReader is the address of clients that do not read. The kernel buffers little for them, and
// their write limits are idleFactor times shorter than those of other clients.
const (
	idleReader = "127.0.0.2"
	idleFactor = 4
)

// unreadConn is the server's side of a connection to a client that does not read.
type unreadConn struct {
	net.Conn

	open *atomic.Int64 // number of these connections that are open
	shut atomic.Bool
}

func (c *unreadConn) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() {
		at = time.Now().Add(time.Until(at) / idleFactor)
	}
	return c.Conn.SetWriteDeadline(at)
}

func (c *unreadConn) Close() error {
	if c.shut.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// dialIdle opens a connection from the address idleReader, with the smallest possible receive
// buffer.
func dialIdle(t *testing.T, addr string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(idleReader)}, Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) }); failed != nil {
			return failed
		}
		return err
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	noError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestUnreadAnswersHoldNothing: clients request large answers and never read them. The server closes
// their connections after the write limit, with one line in the log for each request, and keeps no
// goroutine. Meanwhile other callers scrape and take tokens.
func TestUnreadAnswersHoldNothing(t *testing.T) {
	const each = 5
	paths := []string{"/metrics", "/status.json", "/status.json?minutes=0", "/history/tasks?status=solved&limit=1000"}
	var unread, unreadEver atomic.Int64
	d := startCrowdBehind(t, 100, 60, func(conn net.Conn) net.Conn {
		if from, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); from != idleReader {
			return conn
		}
		noError(t, conn.(*net.TCPConn).SetWriteBuffer(1))
		unread.Add(1)
		unreadEver.Add(1)
		return &unreadConn{Conn: conn, open: &unread}
	})
	var records []history.Record
	for n := range 1000 {
		records = append(records, solvedRecord(n, "t00000", time.Duration(n)*time.Second))
	}
	d.writeRecords(t, records...)
	d.fill(t, "t00000", 3)
	lines := 0
	others := func() {
		t.Helper()
		d.ask(t, "GET", "/metrics").check(t, "another scrape", 200, `poold_pool_tokens{target="t00001"}`)
		d.ask(t, "GET", "/pool/t00000/token").check(t, "a take", 200)
		lines += 2
	}
	others()

	began := time.Now()
	for range each {
		for _, path := range paths {
			write(t, dialIdle(t, d.addr), fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/csv, */*\r\n\r\n", path))
		}
	}
	testkit.Within(t, 20*time.Second, "all connections are accepted", func() bool { return unreadEver.Load() == int64(each*len(paths)) })
	others()
	if unread.Load() == 0 {
		t.Error("the connections were closed before the others' requests ended")
	}
	testkit.Within(t, 30*time.Second, "the server has closed all of them", func() bool { return unread.Load() == 0 })
	if took := time.Since(began); took < kernel.WriteLimit/idleFactor {
		t.Errorf("the server closed them after %v, before the limit", took)
	}
	others()
	d.client.CloseIdleConnections()
	testkit.Within(t, 20*time.Second, "no goroutine of a connection is left", func() bool {
		var stacks strings.Builder
		noError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
		return !strings.Contains(stacks.String(), "net/http.(*conn") // TestMain checks that no other goroutine is left
	})

	lines += each * len(paths)
	if log := d.logged; strings.Count(log.String(), "\n") != lines || log.Count(`"level":"DEBUG"`, `"msg":"request"`) != lines || log.Count(`"status":499`) != each*len(paths) {
		t.Errorf("want %d lines, of %d requests without a reader: %s", lines, each*len(paths), log)
	}
}
