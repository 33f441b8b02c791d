package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Liar is a sentinel that names any address as the master.
type Liar struct {
	Addr string

	mu          sync.Mutex
	master      string
	subscribers []net.Conn
}

// NewLiar starts a Liar, which names the given address.
func NewLiar(t testing.TB, master string) *Liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Liar{Addr: listener.Addr().String(), master: master}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go l.serve(conn)
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return l
}

// Name makes the Liar name another address, and publishes this address like a failover.
func (l *Liar) Name(master string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	payload := strings.ReplaceAll(fmt.Sprintf("%s %s %s", MasterName, l.master, master), ":", " ")
	l.master = master
	for _, conn := range l.subscribers {
		_, _ = io.WriteString(conn, ">3\r\n"+texts("message", "+switch-master", payload))
	}
}

// serve replies to the commands of a connection.
func (l *Liar) serve(conn net.Conn) {
	for reader := bufio.NewReader(conn); ; {
		words, err := readCommand(reader)
		if err != nil {
			return
		}
		l.mu.Lock()
		reply := "+OK\r\n"
		switch strings.ToLower(strings.Join(words[:min(2, len(words))], " ")) {
		case "hello 3":
			reply = "%1\r\n" + texts("server", "redis")
		case "sentinel get-master-addr-by-name":
			host, port, _ := net.SplitHostPort(l.master)
			reply = "*2\r\n" + texts(host, port)
		case "sentinel sentinels":
			reply = "*0\r\n"
		case "subscribe +switch-master":
			l.subscribers = append(l.subscribers, conn)
			reply = ""
			for i, channel := range words[1:] {
				reply += ">3\r\n" + texts("subscribe", channel) + fmt.Sprintf(":%d\r\n", i+1)
			}
		}
		_, _ = io.WriteString(conn, reply)
		l.mu.Unlock()
	}
}

// readCommand reads a list of texts.
func readCommand(r *bufio.Reader) (words []string, err error) {
	size := func() (n int) {
		var line string
		if line, err = r.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for range size() {
		word := make([]byte, size()+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		words = append(words, strings.TrimSuffix(string(word), "\r\n"))
	}
	return words, err
}

// texts encodes texts as parts of a reply.
func texts(parts ...string) string {
	var all strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(part), part)
	}
	return all.String()
}
