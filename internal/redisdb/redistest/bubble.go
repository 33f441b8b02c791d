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

// afterStart is a moment at which Unix milliseconds have 13 digits, as the
// scripts expect of a moment. Bubbles begin in 2000, with 12 digits.
var afterStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Bubble is an embedded server for synctest bubbles: scripts, TIME and TTLs run in the bubble's
// time. A call costs about half a millisecond of real time.
type Bubble struct {
	*miniredis.Miniredis

	server *server.Server

	mu    sync.Mutex
	down  bool
	conns []net.Conn // the server's ends
}

// InBubble starts an embedded server; it must be called inside a bubble, whose
// clock it moves to 2026. It stops with the test.
func InBubble(t testing.TB) *Bubble {
	t.Helper()
	time.Sleep(time.Until(afterStart))
	return Embedded(t)
}

// Embedded starts an embedded server that is reached in memory alone, on the test's clock. It
// stops with the test.
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

// Dial is for pool.Options.Dial. A real socket would keep the bubble's clock from
// moving; this connection is in memory.
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

// SetDown(true) cuts all connections from the server's side and refuses new ones, until
// SetDown(false). The server keeps its data.
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
