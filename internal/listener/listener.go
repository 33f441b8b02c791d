// Package listener opens the port of the daemon. It limits the number of open connections, counts the bytes that leave
// through them, and serves TLS with a certificate that can be replaced.
//
// Half of the connections are reserved for callers with a right key. If connections without a right key fill the other
// half, a new one replaces the oldest of them.
package listener

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Connections are numbers of connections.
type Connections struct{ Open, Refused int }

// Port is an open port. Its methods are safe for concurrent use, except Accept.
type Port struct {
	net.Listener

	log                  *slog.Logger
	certificate          atomic.Pointer[tls.Certificate]
	limit, open, refused atomic.Int64
	logged               time.Time // when Accept last logged the limit

	mu        sync.Mutex
	strangers list.List // the *Conn without a right key, the oldest first
}

const (
	// logEvery is the minimum interval between two log lines about the limit.
	logEvery = time.Minute
	// strangerIdle is how long a connection without a right key may be silent.
	strangerIdle = 10 * time.Second
)

// Listen opens the port. The address is host:port.
func Listen(ctx context.Context, address string, limit int, log *slog.Logger) (*Port, error) {
	var config net.ListenConfig
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4" // with "tcp", 0.0.0.0 would include IPv6
	}
	inner, err := config.Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening: %w by another program or another poold: stop it, or choose another address "+
			"with --listen (or POOLD_LISTEN, or server.listen in the file)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p := &Port{Listener: inner, log: log}
	p.SetLimit(limit)
	return p, nil
}

// Counts returns how many connections are open now, and how many were refused so far.
func (p *Port) Counts() Connections { return Connections{int(p.open.Load()), int(p.refused.Load())} }

// SetLimit replaces the limit. Open connections stay open.
func (p *Port) SetLimit(limit int) { p.limit.Store(int64(limit)) }

// SetCertificate replaces the certificate for new connections. The argument is not nil.
func (p *Port) SetCertificate(certificate *tls.Certificate) { p.certificate.Store(certificate) }

// TLS returns a listener that serves TLS on the connections of the port. SetCertificate must be called
// before the first connection.
func (p *Port) TLS() net.Listener {
	return tls.NewListener(p, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate.Load(), nil },
	})
}

// Accept returns the next connection within the limit, which is a *Conn. It closes connections beyond the limit. If
// more than half of the allowed connections have shown no right key, it closes the oldest of these.
func (p *Port) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err // not wrapped, because net/http checks its type
		}
		if p.open.Add(1) <= p.limit.Load() {
			c := &Conn{Conn: conn, port: p}
			if oldest := p.meet(c); oldest != nil {
				p.refused.Add(1)
				_ = oldest.Close()
			}
			return c, nil
		}
		p.open.Add(-1)
		p.refused.Add(1)
		_ = conn.Close() // the caller learns nothing more from an error
		if time.Since(p.logged) >= logEvery {
			p.logged = time.Now()
			p.log.Warn("the limit of connections is reached, further connections are closed; "+
				"raise the limit if these callers are yours",
				"address", conn.RemoteAddr().String(), "parameter", "server.connections", "limit", p.limit.Load())
		}
	}
}

// meet adds a connection whose caller has shown no right key yet. If there are too many such connections, meet returns
// the oldest, which the caller must close; else it returns nil.
func (p *Port) meet(c *Conn) (oldest *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.place = p.strangers.PushBack(c)
	if first := p.strangers.Front(); int64(p.strangers.Len()) > (p.limit.Load()+1)/2 {
		oldest, _ = first.Value.(*Conn)
	}
	return oldest
}

// Conn is a connection that counts towards the limit until it is closed.
type Conn struct {
	net.Conn

	port    *Port
	closed  sync.Once
	written atomic.Int64
	known   atomic.Bool
	place   *list.Element // in port.strangers
}

// Known says that a request on this connection had a right key.
func (c *Conn) Known() {
	if !c.known.Swap(true) {
		c.leave()
	}
}

func (c *Conn) leave() {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	c.port.strangers.Remove(c.place) // a no-op the second time
}

// SetReadDeadline sets the deadline of reads. Until a request on the connection had a right key, the deadline is at
// most strangerIdle ahead.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(strangerIdle); !c.known.Load() && t.After(latest) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// Written returns the number of bytes that the operating system accepted for sending.
func (c *Conn) Written() int64 { return c.written.Load() }

// Write counts the bytes that it sends.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// Close closes the connection, which then no longer counts.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		c.port.open.Add(-1)
		c.leave()
	})
	return c.Conn.Close()
}
