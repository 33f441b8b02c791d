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
	Share float64 // of the replies to matching requests that are lost, 0 to 1
	Match []byte  // only requests with these bytes match, e.g. a script's hash

	dial   Dialer
	mu     sync.Mutex
	random *rand.Rand
	stolen int
}

// Dialer opens connections.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// NewThief returns a thief with a fixed seed. match is compared with the bytes of requests.
func NewThief(share float64, match string) *Thief {
	return &Thief{
		Share: share, Match: []byte(match), dial: new(net.Dialer).DialContext,
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// Stolen returns the number of lost replies.
func (t *Thief) Stolen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stolen
}

// Over makes the thief use the connections of a dialer unless it is nil, and returns the thief's
// dialer.
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

// strike decides whether the reply to a request is lost.
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
