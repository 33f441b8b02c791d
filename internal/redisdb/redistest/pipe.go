package redistest

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// newPipe returns the two ends of a connection in memory. Unlike net.Pipe, the server's end buffers writes like a
// socket. Without a buffer, the server could block while it writes to one client and holds a lock that other clients
// need. In a bubble, this would be a deadlock if the client reads only at a later time.
func newPipe() (client, server net.Conn) {
	client, end := net.Pipe()
	b := &buffered{Conn: end, writes: make(chan []byte, 4096)}
	go func() {
		for text := range b.writes {
			_, _ = end.Write(text)
		}
		_ = end.Close()
	}()
	return clientEnd{client}, b
}

// clientEnd fails like a socket if the server has closed the connection.
type clientEnd struct{ net.Conn }

func (c clientEnd) Write(text []byte) (n int, err error) {
	if n, err = c.Conn.Write(text); errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "memory", Err: syscall.EPIPE}
	}
	return n, err
}

// A pipe returns an error from SetReadDeadline if its other end is closed; a socket does not.
func (c clientEnd) SetReadDeadline(at time.Time) error  { _ = c.Conn.SetReadDeadline(at); return nil }
func (c clientEnd) SetWriteDeadline(at time.Time) error { _ = c.Conn.SetWriteDeadline(at); return nil }

// buffered is the server's end of a connection. After Close, the client can still read earlier writes.
type buffered struct {
	net.Conn

	mu     sync.Mutex
	closed bool
	writes chan []byte
}

func (b *buffered) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, net.ErrClosed
	}
	b.writes <- append([]byte(nil), text...)
	return len(text), nil
}

func (b *buffered) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.writes)
	}
	return b.SetReadDeadline(time.Unix(1, 0)) // nothing more arrives
}
