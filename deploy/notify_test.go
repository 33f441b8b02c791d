//go:build !race

package deploy_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"poold/internal/testkit"
)

// notifications has the messages that systemd would get on NOTIFY_SOCKET.
type notifications struct {
	testkit.Log

	path string
}

func listenForNotifications(t *testing.T) *notifications {
	t.Helper()
	n := &notifications{path: filepath.Join(t.TempDir(), "notify")}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		message := make([]byte, 4096)
		for {
			size, err := socket.Read(message)
			if err != nil {
				return
			}
			_, _ = n.Write(append(message[:size:size], '\n'))
		}
	}()
	return n
}

// wait waits until a line came so often.
func (n *notifications) wait(t *testing.T, count int, line string) {
	t.Helper()
	testkit.Within(t, 60*time.Second, line, func() bool { return n.Count(line) >= count })
}
