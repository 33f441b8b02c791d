package httpapi

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// countedConn counts the bytes that the operating system accepted for sending. The count shows
// whether any byte of a response left the process.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

type countListener struct{ net.Listener }

// CountListener wraps a listener. The connections of the returned listener count the bytes that
// they send. For TLS, use the returned listener as the inner listener: pass it to
// http.Server.ServeTLS or to tls.NewListener.
func CountListener(l net.Listener) net.Listener { return countListener{l} }

func (l countListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err // not wrapped, because net/http checks its type
	}
	return &countedConn{Conn: conn}, nil
}

type connKey struct{}

// ConnContext adds the connection and its byte count to the context of the connection's requests.
// Assign ConnContext to the field ConnContext of an http.Server. For connections of other listeners
// ConnContext returns ctx unchanged.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		return context.WithValue(ctx, connKey{}, counted)
	}
	return ctx
}

// sentBytes is the number of bytes that had been written to a connection when markSent was called.
type sentBytes struct {
	conn  *countedConn // nil = the bytes are not counted
	bytes int64
}

// markSent returns the number of bytes that were written to the request's connection so far.
func markSent(ctx context.Context) sentBytes {
	conn, ok := ctx.Value(connKey{}).(*countedConn)
	if !ok {
		return sentBytes{}
	}
	return sentBytes{conn: conn, bytes: conn.written.Load()}
}

// nothingSince reports whether no byte was written to the connection after the call of markSent
// that returned s. If the bytes are not counted, nothingSince returns false, so that no token is
// handed out twice.
func (s sentBytes) nothingSince() bool {
	return s.conn != nil && s.conn.written.Load() == s.bytes
}
