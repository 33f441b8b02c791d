package redistest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// Thief is a dialer that lets requests through and throws some of the replies
// away: the server has executed them, and the client sees a cut connection.
type Thief struct {
	Share float64 // of the replies to matching requests, 0 to 1
	Match []byte  // a request is struck at only if it holds these bytes, e.g. a script's hash

	dial   Dialer
	mu     sync.Mutex
	random *rand.Rand
	stolen int
}

// Dialer opens connections.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// NewThief makes a thief with a fixed seed; match is compared as it stands on
// the wire.
func NewThief(share float64, match string) *Thief {
	return &Thief{
		Share: share, Match: []byte(match), dial: new(net.Dialer).DialContext,
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// Stolen is how many replies were thrown away.
func (t *Thief) Stolen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stolen
}

// Over makes the thief strike at connections of this dialer instead of the
// network's, where it is not nil, and returns the thief's own.
func (t *Thief) Over(dial Dialer) Dialer {
	if dial != nil {
		t.dial = dial
	}
	return t.Dial
}

// Dial is for go-redis' Dialer.
func (t *Thief) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &struckConn{Conn: conn, thief: t}, nil
}

// strike decides over one request.
func (t *Thief) strike(request []byte) bool {
	if !bytes.Contains(request, t.Match) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.random.Float64() >= t.Share {
		return false
	}
	t.stolen++
	return true
}

// struckConn is used by one goroutine at a time, as go-redis does.
type struckConn struct {
	net.Conn
	thief  *Thief
	struck bool
}

func (c *struckConn) Write(b []byte) (int, error) {
	c.struck = c.struck || c.thief.strike(b)
	return c.Conn.Write(b)
}

func (c *struckConn) Read(b []byte) (int, error) {
	if !c.struck {
		return c.Conn.Read(b)
	}
	// Waiting for the reply makes sure that the server has executed the request.
	_, _ = c.Conn.Read(b)
	_ = c.Close()
	return 0, io.EOF
}
