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
)

// afterStart is a time whose Unix milliseconds have 13 digits, which the scripts require. Bubbles begin
// in 2000, when Unix milliseconds had 12 digits.
var afterStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Bubble is an embedded server for synctest bubbles: scripts, TIME and TTLs use the clock of the bubble. A
// call takes about half a millisecond of real time.
type Bubble struct {
	*miniredis.Miniredis

	server *server.Server

	mu    sync.Mutex
	down  bool
	conns []net.Conn // the server's ends of the connections

	answer  atomic.Pointer[Answer] // nil = the server answers
	clients sync.Map               // *server.Peer -> struct{}
}

// Answer returns the reply to a client's command, in Redis' protocol, in place of the server; "" lets
// the server execute the command.
type Answer func(command string, args []string) (reply string)

// InBubble starts an embedded server, which stops with the test. It must be called inside a bubble, and
// moves the bubble's clock to 2026.
func InBubble(t testing.TB) *Bubble {
	t.Helper()
	time.Sleep(time.Until(afterStart))
	return Embedded(t)
}

// Embedded starts an embedded server, which stops with the test. Clients reach the server only through
// connections in memory, and it uses the test's clock.
func Embedded(t testing.TB) *Bubble {
	t.Helper()
	b := &Bubble{Miniredis: miniredis.NewMiniRedis()}
	b.ClockTTL(true)
	conn, err := b.Miniredis.Dial() // starts the server without a socket
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	b.server = b.Server()
	b.server.SetPreHook(b.intercept)
	t.Cleanup(b.Close)
	return b
}

// SetAnswer makes answer see each later command of the clients, until SetAnswer(nil). It sees no
// command of a script. It may be called concurrently, once for each connection.
func (b *Bubble) SetAnswer(answer Answer) {
	if answer == nil {
		b.answer.Store(nil)
		return
	}
	b.answer.Store(&answer)
}

// RefuseFrom makes the server refuse the clients' commands, as a user without rights, from the n-th one
// on; the next command is the 0th. The returned function ends that, and returns the refused commands.
func (b *Bubble) RefuseFrom(n int) (end func() []string) {
	var mu sync.Mutex
	var refused []string
	seen := 0
	b.SetAnswer(func(command string, _ []string) string {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen <= n {
			return ""
		}
		refused = append(refused, command)
		return "-NOPERM this user has no permissions\r\n"
	})
	return func() []string {
		b.SetAnswer(nil)
		mu.Lock()
		defer mu.Unlock()
		return refused
	}
}

// intercept reports whether the answer of the test replied to a command.
func (b *Bubble) intercept(from *server.Peer, command string, args ...string) bool {
	if command == "HELLO" { // the first command of each client; each command of a script has a new peer
		b.clients.Store(from, struct{}{})
		return false
	}
	answer := b.answer.Load()
	if answer == nil {
		return false
	}
	if _, client := b.clients.Load(from); !client {
		return false
	}
	reply := (*answer)(command, args)
	if reply != "" {
		from.WriteRaw(reply)
	}
	return reply != ""
}

// Dial opens a connection in memory, because a real socket would keep the bubble's clock from moving. It
// is a value for pool.Options.Dial.
func (b *Bubble) Dial(context.Context, string, string) (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	}
	client, end := newPipe()
	b.conns = append(b.conns, end)
	b.server.ServeConn(end)
	return client, nil
}

// SetDown with true cuts all connections at the server and refuses new connections until a call with
// false. The server keeps its data.
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
