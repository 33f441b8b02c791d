package redistest

import (
	"context"
	"net"
	"sync"
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
}

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
	t.Cleanup(b.Close)
	return b
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
