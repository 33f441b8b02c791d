package redistest

import (
	"net"
	"sync"
)

// buffered is an end of an in-memory connection that takes what is written at once,
// as a socket does. Without it a client that writes a long pipeline and a server
// that answers its first command wait for each other.
type buffered struct {
	net.Conn

	mu      sync.Mutex
	waiting []byte
	err     error // of an earlier write
	sending bool  // a goroutine runs send
}

// Write never blocks; the error of a write is that of a later one.
func (c *buffered) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.waiting = append(c.waiting, b...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(b), nil
}

// send writes what waits, until nothing does or the connection is closed.
func (c *buffered) send() {
	for {
		c.mu.Lock()
		b := c.waiting
		c.waiting = nil
		if len(b) == 0 || c.err != nil {
			c.sending = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		_, err := c.Conn.Write(b)
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
}
