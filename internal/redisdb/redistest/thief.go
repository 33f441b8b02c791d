package redistest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// Thief is a dialer whose connections pass all requests and lose some of the replies. If a reply is
// lost, the server has executed the request, and the client sees a closed connection.
type Thief struct {
	Share float64 // share of lost replies among the replies to matching requests, 0 to 1
	Match []byte  // bytes that a matching request contains, such as a script's hash

	dial   Dialer
	mu     sync.Mutex
	random *rand.Rand
	stolen int
}

// Dialer opens a connection.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// NewThief returns a Thief with a fixed random seed. The Thief loses only replies to requests that
// contain the given text.
func NewThief(share float64, text string) *Thief {
	return &Thief{
		Share: share, Match: []byte(text), dial: new(net.Dialer).DialContext,
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// Stolen returns the number of lost replies.
func (t *Thief) Stolen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stolen
}

// Over makes the Thief use the connections of another dialer, unless that dialer is nil. Over returns
// the Thief's own dialer.
func (t *Thief) Over(dial Dialer) Dialer {
	if dial != nil {
		t.dial = dial
	}
	return t.Dial
}

// Dial opens a connection that loses replies. Tests set the option Dialer of go-redis to this
// method.
func (t *Thief) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &struckConn{Conn: conn, thief: t}, nil
}

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

// struckConn is a connection of a Thief. Only one goroutine at a time may use it. go-redis follows
// this rule.
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
	// After the reply has arrived, the server has certainly executed the request.
	_, _ = c.Conn.Read(b)
	_ = c.Close()
	return 0, io.EOF
}
