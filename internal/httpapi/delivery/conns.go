package delivery

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// countedConn counts the bytes that the operating system took for sending. The count shows
// whether any byte of an answer left the process.
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

// CountListener makes the connections of l count the bytes written to them. With TLS, the TLS
// listener must wrap it: ServeTLS on it, or tls.NewListener over it.
func CountListener(l net.Listener) net.Listener { return countListener{l} }

func (l countListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err // as the listener says it: net/http looks at its type
	}
	return &countedConn{Conn: conn}, nil
}

type connKey struct{}

// ConnContext makes a connection's count visible to handlers; it is meant for
// http.Server.ConnContext. Connections of other listeners pass unchanged.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		return context.WithValue(ctx, connKey{}, counted)
	}
	return ctx
}

// sent is a mark in the stream of bytes of one connection.
type sent struct {
	conn  *countedConn // nil: the bytes are not counted
	bytes int64
}

// markSent remembers how much has been written to the request's connection.
func markSent(ctx context.Context) sent {
	conn, ok := ctx.Value(connKey{}).(*countedConn)
	if !ok {
		return sent{}
	}
	return sent{conn: conn, bytes: conn.written.Load()}
}

// nothingSince reports whether no byte was written since the mark. It returns false if the bytes
// are not counted, so that no token is handed out twice.
func (s sent) nothingSince() bool {
	return s.conn != nil && s.conn.written.Load() == s.bytes
}
