//go:build !race

package deploy_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// notifications are the messages that systemd would get on NOTIFY_SOCKET.
type notifications struct {
	path   string
	socket *net.UnixConn

	mu       sync.Mutex
	messages []notification
}

type notification struct {
	at   time.Time
	text string
}

func listenForNotifications(t *testing.T) *notifications {
	t.Helper()
	n := &notifications{path: filepath.Join(t.TempDir(), "notify")}
	var err error
	if n.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.socket.Close() })
	go func() {
		message := make([]byte, 4096)
		for {
			size, err := n.socket.Read(message)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.messages = append(n.messages, notification{time.Now(), string(message[:size])})
			n.mu.Unlock()
		}
	}()
	return n
}

// all returns the messages so far.
func (n *notifications) all() []notification {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.messages)
}

// matching returns the messages with a line that matches the pattern.
func (n *notifications) matching(pattern string) (found []notification) {
	line := regexp.MustCompile("(?m)^" + pattern + "$")
	for _, m := range n.all() {
		if line.MatchString(m.text) {
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

// states returns the messages about the state of the daemon, in order, without the keep-alives and
// without the lines after the first.
func (n *notifications) states() (list []string) {
	for _, m := range n.all() {
		first, _, _ := strings.Cut(m.text, "\n")
		if first != "WATCHDOG=1" {
			list = append(list, first)
		}
	}
	return list
}

// watchdog is the interval after which systemd would kill the daemon of these tests.
const watchdog = 3 * time.Second // the beat of a starved process may be a second late

// startNotifying starts poold with the environment that systemd sets for a unit with Type=notify and
// WatchdogSec.
func startNotifying(t *testing.T, n *notifications, config string) *daemontest.Process {
	t.Helper()
	return daemontest.Start(t, daemontest.Options{
		Config: config,
		Env:    []string{"NOTIFY_SOCKET=" + n.path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())},
		Wrap:   []string{"sh", "-c", `WATCHDOG_PID=$$ SYSTEMD_EXEC_PID=$$ exec "$@"`, "sh"},
	})
}

const oneTarget = `
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://staging.example.com/login", owner: qa@example.com, depth: 2}
`

// fill waits until the target has two tokens.
func fill(t *testing.T, p *daemontest.Process) {
	t.Helper()
	testkit.Within(t, 60*time.Second, "two tokens", func() bool {
		_, body := p.Call(http.MethodGet, "/pool/login", "")
		return strings.Contains(body, `"fresh":2`)
	})
}

// From its start to its stop, the daemon reports each state to systemd. A refused reload ends with
// READY too, because the daemon works on.
func TestStatesReachSystemd(t *testing.T) {
	t.Parallel()
	n := listenForNotifications(t)
	p := startNotifying(t, n, oneTarget)
	n.wait(t, 1, "READY=1")
	n.wait(t, 2, "WATCHDOG=1")
	fill(t, p)
	p.Signal(syscall.SIGHUP)
	n.wait(t, 1, `MONOTONIC_USEC=\d+`)
	n.wait(t, 2, "READY=1")

	p.Write("targets: {}")
	p.Signal(syscall.SIGHUP)
	n.wait(t, 3, "READY=1")
	if status, body := p.Call(http.MethodPost, "/pool/login/token?wait=10s", ""); status != http.StatusOK {
		t.Errorf("after the refused reload: %d %s", status, body)
	}

	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	n.wait(t, 1, "STOPPING=1")
	want := []string{"READY=1", "RELOADING=1", "READY=1", "RELOADING=1", "READY=1", "STOPPING=1"}
	if got := n.states(); !slices.Equal(got, want) {
		t.Errorf("systemd saw %q, want %q", got, want)
	}
	if p.Output.Count("systemd") != 0 {
		t.Error("poold logged a line about systemd")
	}
}

// While Redis hangs, and after it has died, the keep-alive continues: systemd does not restart the
// daemon for an outage of Redis.
func TestAnOutageOfRedisCausesNoRestart(t *testing.T) {
	t.Parallel()
	address, redis := redistest.Process(t)
	n := listenForNotifications(t)
	p := startNotifying(t, n, "redis: {url: redis://"+address+"}\nproviders: [{name: solver, protocol: simulated}]\n"+oneTarget)
	fill(t, p)
	began := time.Now()
	outage := func(what string, signal syscall.Signal) {
		t.Helper()
		if err := redis.Signal(signal); err != nil {
			t.Fatal(err)
		}
		testkit.Within(t, 60*time.Second, what, func() bool {
			status, _ := p.Call(http.MethodGet, "/readyz", "")
			return status == http.StatusServiceUnavailable
		})
		time.Sleep(2 * watchdog)
	}
	outage("a 503 while redis hangs", syscall.SIGSTOP)
	outage("a 503 after the death of redis", syscall.SIGKILL)

	last := began
	for _, m := range n.matching("WATCHDOG=1") {
		if m.at.Before(began) {
			continue
		}
		if gap := m.at.Sub(last); gap >= watchdog {
			t.Errorf("no keep-alive for %v: systemd would have killed poold after %v", gap, watchdog)
		}
		last = m.at
	}
	if idle := time.Since(last); idle >= watchdog {
		t.Errorf("no keep-alive for the last %v", idle)
	}
	if status, body := p.Call(http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
}

// If the socket vanishes, poold logs one line and serves on.
func TestWithoutTheSocket(t *testing.T) {
	t.Parallel()
	n := listenForNotifications(t)
	p := startNotifying(t, n, oneTarget)
	n.wait(t, 1, "READY=1")
	_ = n.socket.Close()
	if err := os.Remove(n.path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	testkit.Within(t, 60*time.Second, "a line about the socket", func() bool { return p.Output.Count("systemd does not receive") > 0 })
	time.Sleep(watchdog)
	if p.Output.Count("level=WARN", "systemd does not receive the state of the daemon", n.path) != 1 || p.Output.Count("systemd") != 1 {
		t.Errorf("poold logged:\n%s", p.Output.String())
	}
	if status, body := p.Call(http.MethodPost, "/pool/login/token?wait=10s", ""); status != http.StatusOK {
		t.Errorf("without the socket: %d %s", status, body)
	}
}
