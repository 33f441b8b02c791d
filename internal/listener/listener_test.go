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
	testkit.NoError(t, err)
	accepted := make(chan *Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := port.Accept()
			if err != nil {
				return
			}
			accepted <- conn.(*Conn)
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", port.Addr().String())
		testkit.NoError(t, err)
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
	known := func() *Conn {
		t.Helper()
		dial()
		conn := <-accepted
		conn.Known()
		return conn
	}
	first, second := known(), known()
	refused(dial())
	refused(dial())
	testkit.Equal(t, "connections", port.Counts(), Connections{Open: 2, Refused: 2})
	if log.Count("parameter=server.connections limit=2", "address=127.0.0.1") != 1 || log.Count("") != 1 {
		t.Errorf("want one line, got:\n%s", log.String())
	}
	_ = first.Close()
	_ = first.Close() // counts once
	third := known()
	refused(dial())
	port.SetLimit(3)
	fourth := known()
	for _, conn := range []net.Conn{second, third, fourth} {
		_ = conn.Close()
	}
	testkit.Equal(t, "connections still counted", port.Counts().Open, 0)

	// Callers without a right key get half of the connections. A new one takes the place of the oldest.
	port.SetLimit(4)
	oldest := dial()
	<-accepted
	dial()
	<-accepted
	kept := known()
	refused(oldest)
	testkit.Equal(t, "open connections", port.Counts().Open, 2)
	dial()
	last := <-accepted
	testkit.Equal(t, "connections without a key", port.strangers.Len(), 2)
	deadline := &deadlined{}
	for _, c := range []struct {
		conn *Conn
		want time.Duration
	}{{last, strangerIdle}, {kept, time.Minute}} {
		c.conn.Conn = deadline
		_ = c.conn.SetReadDeadline(time.Now().Add(time.Minute))
		if left := time.Until(deadline.at); left > c.want || left < c.want-5*time.Second {
			t.Errorf("a deadline of %v, want %v", left, c.want)
		}
	}
	_ = port.Close()
	<-accepted
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // net returns the error unwrapped
	return ok && timeout.Timeout()
}

// deadlined notes the deadline of reads.
type deadlined struct {
	net.Conn

	at time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.at = t
	return nil
}
