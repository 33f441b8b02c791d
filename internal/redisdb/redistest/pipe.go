package redistest

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// newPipe returns the two ends of a connection in memory. Unlike net.Pipe it buffers writes, as
// a socket does: the server writes to one client while it holds a lock that other clients need,
// and a client in a bubble may read only after time has passed.
func newPipe() (client, server net.Conn) {
	there, back := newStream(), newStream()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

// pipeEnd is one end.
type pipeEnd struct{ in, out *stream }

func (e *pipeEnd) Read(b []byte) (int, error)  { return e.in.read(b) }
func (e *pipeEnd) Write(b []byte) (int, error) { return e.out.write(b) }

// Close ends both directions. The other end can still read earlier writes.
func (e *pipeEnd) Close() error {
	e.in.end(true)
	e.out.end(false)
	return nil
}

func (e *pipeEnd) SetReadDeadline(at time.Time) error {
	e.in.setDeadline(at)
	return nil
}

// SetWriteDeadline does nothing: no write waits.
func (e *pipeEnd) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (e *pipeEnd) SetDeadline(at time.Time) error { return e.SetReadDeadline(at) }

func (e *pipeEnd) LocalAddr() net.Addr  { return memoryAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// stream is one direction of a connection: bytes without bound.
type stream struct {
	mu       sync.Mutex
	changed  *sync.Cond
	bytes    bytes.Buffer
	deadline time.Time   // of reads; zero = none
	timer    *time.Timer // wakes a read at the deadline
	gone     bool        // its reader closed it
	over     bool        // its writer closed it
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case s.bytes.Len() > 0:
			return s.bytes.Read(b)
		case s.over:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	switch {
	case s.over:
		return 0, net.ErrClosed
	case s.gone:
		return 0, &net.OpError{Op: "write", Net: memoryAddr{}.Network(), Err: syscall.EPIPE}
	}
	return s.bytes.Write(b)
}

func (s *stream) setDeadline(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	if s.timer != nil {
		s.timer.Stop()
	}
	if !at.IsZero() {
		s.timer = time.AfterFunc(time.Until(at), s.wake)
	}
	s.changed.Broadcast()
}

func (s *stream) wake() {
	s.mu.Lock() // so that a read that checked its deadline waits already
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// end closes the stream on the side of its reader, or of its writer.
func (s *stream) end(reader bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reader {
		s.gone = true
	} else {
		s.over = true
	}
	s.changed.Broadcast()
}
