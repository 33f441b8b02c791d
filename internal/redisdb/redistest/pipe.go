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

// newPipe returns the two ends of a connection in memory. Unlike net.Pipe, the connection buffers
// writes like a socket. Without a buffer, the server could block while it writes to one client and
// holds a lock that other clients need. In a bubble, this would be a deadlock if the client reads
// only at a later time.
func newPipe() (client, server net.Conn) {
	there, back := newStream(), newStream()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

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

// SetWriteDeadline does nothing, because writes never block.
func (e *pipeEnd) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline only sets the deadline of reads.
func (e *pipeEnd) SetDeadline(at time.Time) error { return e.SetReadDeadline(at) }

func (e *pipeEnd) LocalAddr() net.Addr  { return memoryAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// stream is one direction of a connection. The buffer of a stream has no maximum size.
type stream struct {
	mu       sync.Mutex
	changed  *sync.Cond
	bytes    bytes.Buffer
	deadline time.Time   // deadline of reads; zero = none
	timer    *time.Timer // wakes a read at the deadline
	gone     bool        // whether the reader closed the stream
	over     bool        // whether the writer closed the stream
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
	s.mu.Lock() // with the lock, a read that has checked its deadline is already waiting
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// end closes the stream on the reader's side or on the writer's side.
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
