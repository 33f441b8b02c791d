//go:build !race

package deploy_test

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/testkit"
)

// notifications are the messages that systemd would get on NOTIFY_SOCKET.
type notifications struct {
	path   string
	socket *net.UnixConn

	mu       sync.Mutex
	messages []string
}

func listenForNotifications(t *testing.T) *notifications {
	t.Helper()
	n := &notifications{path: filepath.Join(t.TempDir(), "notify")}
	var err error
	n.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = n.socket.Close() })
	go func() {
		message := make([]byte, 4096)
		for {
			size, err := n.socket.Read(message)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.messages = append(n.messages, string(message[:size]))
			n.mu.Unlock()
		}
	}()
	return n
}

// all returns the messages so far.
func (n *notifications) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.messages)
}

// matching returns the messages with a line that matches the pattern.
func (n *notifications) matching(pattern string) (found []string) {
	line := regexp.MustCompile("(?m)^" + pattern + "$")
	for _, m := range n.all() {
		if line.MatchString(m) {
			found = append(found, m)
		}
	}
	return found
}

// wait waits until n messages have a line that matches the pattern.
func (n *notifications) wait(t *testing.T, count int, pattern string) {
	t.Helper()
	testkit.Within(t, 60*time.Second, pattern, func() bool { return len(n.matching(pattern)) >= count })
}
