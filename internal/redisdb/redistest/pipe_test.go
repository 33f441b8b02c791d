package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A subscriber that reads nothing for a while blocks no publisher. In a bubble, the subscriber may
// sleep until a time that comes only after the publisher has ended.
func TestAListenerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := InBubble(t)
		const subscribe, publish = "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n", "*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$5\r\nhello\r\n"
		call := func(text string) *bufio.Reader {
			conn, err := redis.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			return bufio.NewReader(conn)
		}
		line := func(of *bufio.Reader) string {
			text, err := of.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(text)
		}
		listener := call(subscribe)
		synctest.Wait()
		publisher := call(strings.Repeat(publish, 100))
		for range 100 {
			if got := line(publisher); got != ":1" {
				t.Fatalf("a publish reached %s", got)
			}
		}
		time.Sleep(time.Minute)
		if got := line(listener); got != "*3" {
			t.Errorf("the listener reads %q", got)
		}
	})
}

// When a connection in memory is closed or a deadline passes, it behaves like a socket.
func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPipe()
		buffer := make([]byte, 10)
		began := time.Now()
		if err := client.SetDeadline(began.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := client.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() {
			_, _ = io.WriteString(server, "last")
			_ = server.Close()
		})
		if text, err := io.ReadAll(client); string(text) != "last" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := client.Write(buffer); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write to a closed end: %v", err)
		}
		if _, err := server.Read(buffer); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read from it: %v", err)
		}
		_ = client.Close()
		if _, err := client.Write(buffer); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write of a closed end: %v", err)
		}
	})
}
