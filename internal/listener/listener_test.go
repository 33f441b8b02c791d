package listener

import (
	"context"
	"net"
	"testing"
	"time"

	"poold/internal/testkit"
)

// The port closes connections beyond the limit, logs this once, and serves again when a connection
// has ended. A new limit applies at once.
func TestPortClosesConnectionsBeyondTheLimit(t *testing.T) {
	log := new(testkit.Log)
	port, err := Listen(context.Background(), "127.0.0.1:0", 2, log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := port.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", port.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	refused := func(conn net.Conn) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a connection beyond the limit got %v", err)
		}
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	refused(dial())
	refused(dial())
	if n := port.Counts(); n != (Counts{Open: 2, Refused: 2}) {
		t.Errorf("%+v", n)
	}
	if log.Count("parameter=server.connections limit=2", "address=127.0.0.1") != 1 || log.Count("") != 1 {
		t.Errorf("want one line, got:\n%s", log.String())
	}
	_ = first.Close()
	_ = first.Close() // counts once
	dial()
	third := <-accepted
	refused(dial())
	port.SetLimit(3)
	dial()
	fourth := <-accepted
	for _, conn := range []net.Conn{second, third, fourth} {
		_ = conn.Close()
	}
	if port.Counts().Open != 0 {
		t.Errorf("%d connections are still counted", port.Counts().Open)
	}
	_ = port.Close()
	<-accepted
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // net returns the error unwrapped
	return ok && timeout.Timeout()
}
