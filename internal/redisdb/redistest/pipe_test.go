package redistest

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/testkit"
)

// A subscriber that reads nothing for a while blocks no publisher. In a bubble, the subscriber may
// sleep until a time that comes only after the publisher has ended.
func TestAListenerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := InBubble(t)
		const subscribe, publish = "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n", "*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$5\r\nhello\r\n"
		call := func(text string) *bufio.Reader {
			conn, err := redis.Dial(t.Context(), "", "")
			testkit.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			return bufio.NewReader(conn)
		}
		line := func(of *bufio.Reader) string {
			text, err := of.ReadString('\n')
			testkit.NoError(t, err)
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
