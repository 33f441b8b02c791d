package postgrestest

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// Thief is a proxy between a program and a server. It can drop responses and cut connections.
type Thief struct {
	word   atomic.Pointer[string]
	stolen atomic.Int32
	silent atomic.Bool
	closed atomic.Bool
}

// Through starts a Thief in front of the server at the given address. It returns the Thief and the
// Thief's address. The Thief stops when the test ends.
func Through(t testing.TB, address string) (*Thief, string) {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f := &Thief{}
	server := to.Host
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

// Silence makes the Thief drop all data on old and new connections. Silence(false) ends this for new
// connections. A connection that was silent once stays silent.
func (f *Thief) Silence(on bool) { f.silent.Store(on) }

// Close makes the Thief close each new connection immediately, and each old connection at its
// next request. Close(false) ends this for new connections.
func (f *Thief) Close(on bool) { f.closed.Store(on) }

func (f *Thief) carry(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	if f.closed.Load() {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var strikes, mute atomic.Bool
	silent := func() bool {
		if f.silent.Load() {
			mute.Store(true)
		}
		return mute.Load()
	}
	silent()
	go func() {
		defer func() { _ = server.Close() }()
		copyDirection(server, client, func(request []byte) action {
			if f.closed.Load() {
				return cut
			}
			if silent() {
				return swallow
			}
			if word := f.word.Load(); word != nil && bytes.Contains(request, []byte(*word)) && f.word.CompareAndSwap(word, nil) {
				strikes.Store(true)
			}
			return forward
		})
	}()
	copyDirection(client, server, func([]byte) action {
		switch {
		case silent():
			return swallow
		case strikes.Load():
			f.stolen.Add(1)
			return cut
		default:
			return forward
		}
	})
}

// action is the decision of copyDirection about a piece of data.
type action int

const (
	forward action = iota
	swallow
	cut
)

// copyDirection copies the data that flows in one direction of a connection. The function judge decides
// what happens to each piece of data. copyDirection returns when the sender ends the data or judge
// returns cut.
func copyDirection(to, from net.Conn, judge func([]byte) action) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch judge(buffer[:n]) {
		case forward:
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		case cut:
			return
		case swallow:
		}
	}
}
