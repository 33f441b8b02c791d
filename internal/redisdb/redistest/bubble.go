package redistest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Bubble is an embedded server for synctest bubbles: scripts, TIME and TTLs use the clock of the
// bubble. A call takes about half a millisecond of real time.
type Bubble struct {
	*miniredis.Miniredis

	link    link                   // of all clients
	answer  atomic.Pointer[Answer] // nil = the server replies to all commands
	clients sync.Map               // *server.Peer -> struct{}
}

// Answer replies to a client's command, in Redis' protocol, instead of the server. If the reply is
// "", the server executes the command.
type Answer func(command string, args []string) (reply string)

// InBubble starts an embedded server, which stops when the test ends. InBubble must be called inside
// a bubble, and moves the bubble's clock from 2000 to 2026: the scripts require Unix milliseconds of 13 digits.
func InBubble(t testing.TB) *Bubble {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	b := Embedded(t)
	// A pool of go-redis that failed to dial sleeps for a second before it finds that it is closed.
	t.Cleanup(func() { time.Sleep(2 * time.Second) })
	return b
}

// Embedded starts an embedded server, which stops when the test ends. Clients reach the server only
// through connections in memory. The server uses the test's clock.
func Embedded(t testing.TB) *Bubble {
	t.Helper()
	b := &Bubble{Miniredis: miniredis.NewMiniRedis()}
	b.ClockTTL(true)
	if conn, err := b.Miniredis.Dial(); err == nil { // starts the server without a socket
		_ = conn.Close()
	}
	b.Server().SetPreHook(b.intercept)
	t.Cleanup(func() {
		b.SetDown(true) // a connection that is dialled after the end would stay open
		b.Close()
	})
	return b
}

// SetAnswer passes each later command of the clients to the function answer, until a call of
// SetAnswer(nil). Commands inside a script are not passed. The function may be called concurrently by
// several connections.
func (b *Bubble) SetAnswer(answer Answer) { b.answer.Store(&answer) }

// intercept reports whether the Answer of the test replied to a command.
func (b *Bubble) intercept(from *server.Peer, command string, args ...string) bool {
	if command == "HELLO" { // the first command of each client; a command in a script has a new peer
		b.clients.Store(from, struct{}{})
		return false
	}
	answer := b.answer.Load()
	if _, client := b.clients.Load(from); !client || answer == nil || *answer == nil {
		return false
	}
	reply := (*answer)(command, args)
	if reply != "" {
		from.WriteRaw(reply)
	}
	return reply != ""
}

// Dial opens a connection in memory, because a real socket would stop the bubble's clock. Tests set
// pool.Options.Dial to this method.
func (b *Bubble) Dial(context.Context, string, string) (net.Conn, error) {
	return b.link.open(func() (client net.Conn, end io.Closer, err error) {
		client, server := newPipe()
		b.Server().ServeConn(server)
		return client, server, nil
	})
}

// SetDown closes all connections and makes the server refuse new ones, until SetDown(false).
// The server keeps its data.
func (b *Bubble) SetDown(down bool) { b.link.setDown(down) }

// Client returns a client with the options o that reaches only this server. The function setDown cuts off this client
// alone, as the death of its process would, until setDown(false).
func (b *Bubble) Client(o redis.Options) (client *redis.Client, setDown func(down bool)) {
	own := &link{}
	o.DisableIdentity, o.ContextTimeoutEnabled = true, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		return own.open(func() (client net.Conn, end io.Closer, err error) {
			client, err = b.Dial(ctx, network, address)
			return client, client, err
		})
	}
	return redis.NewClient(&o), own.setDown
}

// link is the way of clients to a server, which a test can interrupt.
type link struct {
	mu   sync.Mutex
	down bool
	ends []io.Closer // of the connections
}

// open opens a connection by the function dial. setDown closes the end that dial returns.
func (l *link) open(dial func() (client net.Conn, end io.Closer, err error)) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	}
	client, end, err := dial()
	if err == nil {
		l.ends = append(l.ends, end)
	}
	return client, err
}

func (l *link) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for _, end := range l.ends {
		_ = end.Close()
	}
	l.ends = nil
}
