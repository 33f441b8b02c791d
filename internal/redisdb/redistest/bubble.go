package redistest

import (
	"context"
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

// afterStart is a time whose Unix milliseconds have 13 digits, as the scripts require. Bubbles begin
// in 2000, when Unix milliseconds had 12 digits.
var afterStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Bubble is an embedded server for synctest bubbles: scripts, TIME and TTLs use the clock of the
// bubble. A call takes about half a millisecond of real time.
type Bubble struct {
	*miniredis.Miniredis

	mu    sync.Mutex
	down  bool
	conns []net.Conn // the server's ends of the connections

	answer  atomic.Pointer[Answer] // nil = the server replies to all commands
	clients sync.Map               // *server.Peer -> struct{}
}

// Answer replies to a client's command, in Redis' protocol, instead of the server. If the reply is
// "", the server executes the command.
type Answer func(command string, args []string) (reply string)

// InBubble starts an embedded server, which stops when the test ends. InBubble must be called inside
// a bubble, and moves the bubble's clock to 2026.
func InBubble(t testing.TB) *Bubble {
	t.Helper()
	time.Sleep(time.Until(afterStart))
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	}
	client, end := newPipe()
	b.conns = append(b.conns, end)
	b.Server().ServeConn(end)
	return client, nil
}

// Client returns a client with the options o that reaches only this server. The function cut ends its
// connections for good, as the death of its process would.
func (b *Bubble) Client(o redis.Options) (client *redis.Client, cut func()) {
	var mu sync.Mutex
	var conns []net.Conn
	dead := false
	o.DisableIdentity, o.ContextTimeoutEnabled = true, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return nil, net.ErrClosed
		}
		conn, err := b.Dial(ctx, network, address)
		conns = append(conns, conn)
		return conn, err
	}
	return redis.NewClient(&o), func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// SetDown closes all connections and makes the server refuse new ones, until SetDown(false).
// The server keeps its data.
func (b *Bubble) SetDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
	if down {
		for _, conn := range b.conns {
			_ = conn.Close()
		}
		b.conns = nil
	}
}
