package redisdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// watchful is a dialer. If one connection breaks, older connections to the same address are not
// used again, because a restart of Redis has probably ended them, too. Without TLS, go-redis finds
// a dead connection by a check of the socket. With TLS, there is no such check. Without this
// dialer, a call would try one dead connection after another, and fail at the fourth.
type watchful struct {
	dial dialFunc

	mu      sync.Mutex
	servers map[string]*peer // by address
}

func newWatchful(dial dialFunc) *watchful { return &watchful{dial: dial, servers: map[string]*peer{}} }

// Dial opens a connection.
func (d *watchful) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	server := d.server(addr)
	return &watchedConn{Conn: conn, peer: server, number: server.opened.Add(1)}, nil
}

func (d *watchful) server(addr string) *peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.servers[addr] == nil {
		d.servers[addr] = &peer{}
	}
	return d.servers[addr]
}

// peer is the state of one address.
type peer struct {
	opened atomic.Int64 // number of connections so far
	broken atomic.Int64 // highest number of a connection that must not be used again
}

// drop marks all existing connections to the address as broken.
func (p *peer) drop() { p.broken.Store(p.opened.Load()) }

type watchedConn struct {
	net.Conn

	peer   *peer
	number int64 // number of this connection, from 1
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

// note handles an error of this connection. If the error means that Redis or the network
// ended the connection, all existing connections to the address count as broken.
func (c *watchedConn) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.peer.drop()
}

// SyscallConn fails if the connection counts as broken. Before go-redis uses an idle connection, it
// calls SyscallConn; after a failure it opens a new connection.
func (c *watchedConn) SyscallConn() (syscall.RawConn, error) {
	if c.number <= c.peer.broken.Load() {
		return nil, io.EOF
	}
	if socket, ok := c.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return noSocket{}, nil
}

// noSocket is the RawConn of a connection without a socket.
type noSocket struct{}

func (noSocket) Control(func(uintptr)) error    { return nil }
func (noSocket) Read(func(uintptr) bool) error  { return nil }
func (noSocket) Write(func(uintptr) bool) error { return nil }

// dialHook hides failed dials from the pools of go-redis. After as many failed dials as it may have
// connections, a pool would fail all calls and dial once a second, so the end of an outage would be
// noticed up to a second late. Instead, the pool gets a connection whose first use fails.
type dialHook struct {
	// limit replaces the time limit of go-redis for a dial; 0 = it stays.
	limit time.Duration
}

func (h dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if h.limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), h.limit)
			defer cancel()
		}
		conn, err := next(ctx, network, addr)
		if is(err, reasonContradicted) {
			conn, err = next(ctx, network, addr) // asks another sentinel
		}
		if err != nil {
			return newFailedConn(err), nil
		}
		return conn, nil
	}
}

func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// failedConn is the result of a failed dial.
type failedConn struct {
	net.Conn
	err error
}

func newFailedConn(err error) failedConn {
	conn, _ := net.Pipe()
	// The cause is a text, because go-redis would repeat the first use after an error of a dial. go-redis
	// unwraps the error of the first use.
	down := &downError{reason: meaning(err), cause: errors.New(err.Error())}
	return failedConn{conn, fmt.Errorf("dialing redis: %w", down)}
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }

// SyscallConn fails, so that go-redis does not use the connection for a later call.
func (failedConn) SyscallConn() (syscall.RawConn, error) { return nil, io.EOF }
