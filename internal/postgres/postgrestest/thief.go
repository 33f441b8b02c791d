package postgrestest

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"poold/internal/testkit"
)

// Thief is a proxy between a program and a server. It can drop responses and cut connections.
type Thief struct {
	word   atomic.Pointer[string]
	stolen atomic.Int32
}

// Through starts a Thief in front of the server at the given address. It returns the Thief and the
// Thief's address. The Thief stops when the test ends.
func Through(t testing.TB, address string) (*Thief, string) {
	t.Helper()
	to, err := url.Parse(address)
	testkit.NoError(t, err)
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	f, server := &Thief{}, to.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go f.carry(client, server)
		}
	}()
	to.Host = l.Addr().String()
	return f, to.String()
}

// Steal makes the Thief forward the next request that contains the word, drop the response and cut the connection.
func (f *Thief) Steal(word string) { f.word.Store(&word) }

// Stolen returns the number of responses that Steal dropped.
func (f *Thief) Stolen() int { return int(f.stolen.Load()) }

func (f *Thief) carry(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var strikes atomic.Bool
	go func() {
		defer func() { _ = server.Close() }()
		forward(server, client, func(request []byte) bool {
			if word := f.word.Load(); word != nil && bytes.Contains(request, []byte(*word)) && f.word.CompareAndSwap(word, nil) {
				strikes.Store(true)
			}
			return true
		})
	}()
	forward(client, server, func([]byte) bool {
		if strikes.Load() {
			f.stolen.Add(1)
		}
		return !strikes.Load()
	})
}

// forward copies data until the sender ends it or passes returns false.
func forward(to, from net.Conn, passes func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !passes(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
