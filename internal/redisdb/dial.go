package redisdb

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// watchful makes a dialer of connections that know of each other's end: where one breaks,
// those to the same address that were opened before are not used again. After a restart of
// Redis they have ended as well. go-redis finds that out by a look at the socket, but not
// behind TLS: there a call would meet one dead connection after the other, and be given up
// at the fourth.
func watchful(dial dialFunc) dialFunc {
	var mu sync.Mutex
	servers := map[string]*peer{}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if servers[addr] == nil {
			servers[addr] = &peer{}
		}
		return &watchedConn{Conn: conn, peer: servers[addr], number: servers[addr].opened.Add(1)}, nil
	}
}

// peer is an address that connections lead to.
type peer struct {
	opened atomic.Int64 // how many
	broken atomic.Int64 // those up to this number are not used again
}

// watchedConn is one of them.
type watchedConn struct {
	net.Conn

	peer   *peer
	number int64 // from 1
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(err)
	return n, err
}

func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.note(err)
	return n, err
}

// note finds out whether the connection has ended, and not by this side.
func (c *watchedConn) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.peer.broken.Store(c.peer.opened.Load())
}

// SyscallConn is what go-redis asks for before it uses an idle connection; where there is
// an error it opens another one.
func (c *watchedConn) SyscallConn() (syscall.RawConn, error) {
	if c.number <= c.peer.broken.Load() {
		return nil, io.EOF
	}
	if socket, ok := c.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return noSocket{}, nil
}

// noSocket stands for a connection whose socket tells nothing.
type noSocket struct{}

func (noSocket) Control(func(uintptr)) error    { return nil }
func (noSocket) Read(func(uintptr) bool) error  { return nil }
func (noSocket) Write(func(uintptr) bool) error { return nil }
