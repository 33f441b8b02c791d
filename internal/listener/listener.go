// Package listener opens the port of the daemon. It limits the number of open connections, in all
// and from one address, and serves TLS with a certificate that can be replaced.
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits are the maximum numbers of open connections. A connection beyond them is closed at once.
type Limits struct {
	All        int
	PerAddress int // from one IPv4 address, or one /64 network of IPv6
}

// Counts are numbers of connections.
type Counts struct {
	Open              int
	RefusedAll        int // beyond Limits.All
	RefusedPerAddress int // beyond Limits.PerAddress
}

// Port is an open port. Its methods are safe for concurrent use.
type Port struct {
	net.Listener

	log         *slog.Logger
	certificate atomic.Pointer[tls.Certificate]

	mu     sync.Mutex
	limits Limits
	counts Counts
	of     map[netip.Prefix]int
	logged time.Time // when a limit was last logged
}

// logEvery is the minimum interval between two log lines about a limit.
const logEvery = time.Minute

// Listen opens the port. The address is host:port.
func Listen(ctx context.Context, address string, limits Limits, log *slog.Logger) (*Port, error) {
	var config net.ListenConfig
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4" // with "tcp", 0.0.0.0 would include IPv6
	}
	inner, err := config.Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening: %w by another program or another poold: stop it, or choose another address with --listen (or POOLD_LISTEN, or server.listen in the file)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return &Port{Listener: inner, log: log, limits: limits, of: map[netip.Prefix]int{}}, nil
}

// Counts returns the number of open connections now, and of refused ones so far.
func (p *Port) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// SetLimits replaces the limits. Open connections stay open.
func (p *Port) SetLimits(limits Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limits
}

// SetCertificate replaces the certificate for new connections. The argument is not nil.
func (p *Port) SetCertificate(certificate *tls.Certificate) { p.certificate.Store(certificate) }

// TLS returns a listener that serves TLS on the connections of inner. SetCertificate must be called
// before the first connection.
func (p *Port) TLS(inner net.Listener) net.Listener {
	return tls.NewListener(inner, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate.Load(), nil },
	})
}

// Accept returns the next connection within the limits. It closes connections beyond them.
func (p *Port) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err // not wrapped, because net/http checks its type
		}
		from := Network(conn.RemoteAddr().String())
		limit, full := p.admit(from)
		if limit == "" {
			return &limited{Conn: conn, port: p, from: from}, nil
		}
		_ = conn.Close() // the caller learns nothing more from an error
		if full > 0 {
			p.log.Warn("a limit of connections is reached, further connections are closed; raise the limit if these callers are yours",
				"address", from.Addr(), "parameter", limit, "limit", full)
		}
	}
}

// admit counts a connection. If it is beyond a limit, admit returns the key of the limit in the
// configuration file. The result full is the limit if a log line is due, and otherwise 0.
func (p *Port) admit(from netip.Prefix) (limit string, full int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.counts.Open >= p.limits.All:
		p.counts.RefusedAll++
		limit, full = "server.connections", p.limits.All
	case p.of[from] >= p.limits.PerAddress:
		p.counts.RefusedPerAddress++
		limit, full = "server.connections_per_address", p.limits.PerAddress
	default:
		p.counts.Open++
		p.of[from]++
		return "", 0
	}
	if time.Since(p.logged) < logEvery {
		return limit, 0
	}
	p.logged = time.Now()
	return limit, full
}

func (p *Port) release(from netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Open--
	if p.of[from]--; p.of[from] == 0 {
		delete(p.of, from)
	}
}

// limited is a connection that counts towards the limits until it is closed.
type limited struct {
	net.Conn

	port   *Port
	from   netip.Prefix
	closed sync.Once
}

func (c *limited) Close() error {
	c.closed.Do(func() { c.port.release(c.from) })
	return c.Conn.Close()
}

// Network returns the sender to which a connection from a peer, given as address:port, is
// attributed. For IPv4 the sender is the address itself. For IPv6 the sender is the /64 network,
// because one host may use all addresses of a /64 network. For an address that is not an IP address,
// such as a unix socket, the result is the zero value. The function ignores headers that a proxy adds.
func Network(remote string) netip.Prefix {
	socket, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := socket.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	from, _ := addr.Prefix(bits) // cannot fail: bits is at most the length of the address
	return from
}
