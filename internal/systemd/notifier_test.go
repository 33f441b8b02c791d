package systemd_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/systemd"
	"poold/internal/testkit"
)

// listen opens a socket for the messages.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// next returns the next message, or "" if none comes within the given time.
func next(t *testing.T, socket *net.UnixConn, within time.Duration) string {
	t.Helper()
	testkit.NoError(t, socket.SetReadDeadline(time.Now().Add(within)))
	message := make([]byte, 4096)
	n, err := socket.Read(message)
	if err != nil {
		return ""
	}
	return string(message[:n])
}

// want reads messages until one has the given assignment, and returns the message.
func want(t *testing.T, socket *net.UnixConn, assignment string) string {
	t.Helper()
	var seen []string
	for range 1000 {
		message := next(t, socket, 5*time.Second)
		if message == "" {
			break
		}
		for line := range strings.Lines(message) {
			if strings.TrimSpace(line) == assignment {
				return message
			}
		}
		seen = append(seen, message)
	}
	t.Fatalf("no message has %q; the messages were %q", assignment, seen)
	return ""
}

// environment sets the variables that systemd sets, for this test.
func environment(t *testing.T, variables ...string) {
	t.Helper()
	for _, name := range []string{"NOTIFY_SOCKET", "SYSTEMD_EXEC_PID", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		t.Setenv(name, "")
	}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// A start, a reload and a stop send the states in this order.
func TestStates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	var log testkit.Log
	socket := listen(t, name)
	environment(t, "NOTIFY_SOCKET="+name)
	n := systemd.New(log.Logger())
	n.Ready()
	want(t, socket, "READY=1")
	n.Reload(func() { want(t, socket, "RELOADING=1") })
	want(t, socket, "READY=1")
	n.Stopping()
	want(t, socket, "STOPPING=1")
	n.Reload(func() {})
	testkit.Equal(t, "a message after STOPPING", next(t, socket, 20*time.Millisecond), "")
	testkit.Equal(t, "logged", log.String(), "")
}

// The keep-alive comes twice per interval while the main loop turns, stops when the loop hangs, and
// continues during a stop, in which the loop has ended.
func TestWatchdog(t *testing.T) {
	const interval = 200 * time.Millisecond
	name := filepath.Join(t.TempDir(), "notify")
	socket := listen(t, name)
	var log testkit.Log
	environment(t, "NOTIFY_SOCKET="+name, "WATCHDOG_USEC=200000", "WATCHDOG_PID="+strconv.Itoa(os.Getpid()))
	n := systemd.New(log.Logger())
	var hungSince atomic.Int64 // Unix ns; 0 = the loop turns
	testkit.Run(t, n.KeepAlive(func() time.Time {
		if at := hungSince.Load(); at != 0 {
			return time.Unix(0, at)
		}
		return time.Now()
	}))
	want(t, socket, "WATCHDOG=1")
	began := time.Now()
	for range 4 {
		want(t, socket, "WATCHDOG=1")
	}
	testkit.AtMost(t, "time of four keep-alives", time.Since(began), 3*interval)
	hungSince.Store(time.Now().UnixNano())
	for end := time.Now().Add(2 * interval); time.Now().Before(end); {
		next(t, socket, time.Until(end)) // the loop turned a moment ago
	}
	testkit.Equal(t, "a message while the loop hangs", next(t, socket, 2*interval), "")
	n.Stopping()
	want(t, socket, "STOPPING=1")
	want(t, socket, "WATCHDOG=1")
}

// Without NOTIFY_SOCKET nothing happens. A watchdog with a wrong interval gets no keep-alive.
func TestNoWatchdog(t *testing.T) {
	log := new(testkit.Log)
	environment(t)
	none := systemd.New(log.Logger())
	reloaded := false
	none.Ready()
	none.Reload(func() { reloaded = true })
	none.Stopping()
	if err := none.KeepAlive(nil)(t.Context()); err != nil || !reloaded || log.String() != "" {
		t.Errorf("%v, reloaded: %t, logged %s", err, reloaded, log.String())
	}
	environment(t, "WATCHDOG_USEC=x")
	if err := none.KeepAlive(nil)(t.Context()); err != nil ||
		log.Count("level=WARN", "the watchdog of systemd gets no keep-alive", "WATCHDOG_USEC") != 1 {
		t.Errorf("%v, logged %s", err, log.String())
	}
}

// If systemd cannot be reached, the daemon logs one line.
func TestNoSocket(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	var log testkit.Log
	environment(t, "NOTIFY_SOCKET="+name)
	n := systemd.New(log.Logger())
	for range 3 {
		n.Ready()
	}
	if log.Count("level=WARN", "systemd does not receive the state of the daemon", name, "no such file") != 1 ||
		strings.Count(log.String(), "\n") != 1 {
		t.Errorf("logged %s", log.String())
	}
}
