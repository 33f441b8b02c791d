package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"poold/internal/status"
	"poold/internal/testkit"
)

// watchedDaemon streams the given events, and answers /status.json.
type watchedDaemon struct {
	events chan string // "name data"; an empty text ends the stream
	polled string      // response to a poll; "" = 404

	mu     sync.Mutex
	opened int
}

func (d *watchedDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/status.json" && d.polled != "" {
		_, _ = w.Write([]byte(d.polled))
		return
	}
	if r.URL.Path != "/status/stream" || d.events == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	d.mu.Lock()
	d.opened++
	d.mu.Unlock()
	_, _ = fmt.Fprint(w, ": poold\n\n")
	for {
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case event := <-d.events:
			name, data, _ := strings.Cut(event, " ")
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
		}
	}
}

// startWatching runs `poold status --watch` until stop is called, and returns the output.
func startWatching(t *testing.T, d *watchedDaemon, args ...string) (printed *testkit.Log, stop func() (code int, stderr string)) {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	printed = &testkit.Log{}
	var log testkit.Log
	ended := make(chan int, 1)
	go func() {
		lookup := func(name string) (string, bool) { return server.URL, name == "POOLD_URL" }
		ended <- run(ctx, append([]string{"status", "--watch"}, args...), lookup, printed, &log)
	}()
	return printed, func() (int, string) {
		cancel()
		return <-ended, log.String()
	}
}

// After each change the whole status is printed. A snapshot without a visible change is not
// printed. An interrupt ends the command with success.
func TestWatch(t *testing.T) {
	d := &watchedDaemon{events: make(chan string)}
	printed, stop := startWatching(t, d, "log*")
	d.events <- `status {"as_of":"2026-01-02T03:04:05Z","ready":true,"targets":[{"name":"login","state":"ok","fresh":3},{"name":"other","state":"ok"}]}`
	d.events <- `change {"as_of":"2026-01-02T03:04:06Z"}`
	d.events <- `change {"as_of":"2026-01-02T03:04:07Z","targets":[{"name":"other","state":"ok","fresh":9}]}`
	d.events <- `change {"as_of":"2026-01-02T03:04:08Z","targets":[{"name":"login","state":"starved","reason":"why\u001b[2J"}]}`
	d.events <- `change {"as_of":"2026-01-02T03:04:09Z","gone":["login"]}`
	d.events <- `news {}`
	testkit.Within(t, 20*time.Second, "the last event", func() bool { return strings.Contains(printed.String(), ":09Z\n") })
	code, stderr := stop()
	text := printed.String()
	if code != exitDone || stderr != "" || strings.Count(text, "as of ") != 3 || !strings.HasPrefix(text, "as of 2026-01-02T03:04:05Z\nPROVIDER") ||
		!strings.Contains(text, "\nas of 2026-01-02T03:04:08Z\nPROVIDER") || !strings.Contains(text, "\nlogin: why\uFFFD[2J\n") || strings.Contains(text, "\x1b") {
		t.Errorf("exit %d, %s\n%s", code, stderr, text)
	}
}

// With --json each change is a complete document in one line.
func TestWatchAsJSON(t *testing.T) {
	d := &watchedDaemon{events: make(chan string)}
	printed, stop := startWatching(t, d, "--json")
	d.events <- `status {"version":"1","as_of":"a","targets":[{"name":"login","state":"ok","fresh":3}]}`
	d.events <- `change {"as_of":"b"}`
	d.events <- `change {"as_of":"c","targets":[{"name":"login","state":"ok","fresh":2}]}`
	testkit.Within(t, 20*time.Second, "two lines", func() bool { return strings.Count(printed.String(), "\n") == 2 })
	if code, stderr := stop(); code != exitDone || stderr != "" {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for i, line := range strings.Split(strings.TrimSpace(printed.String()), "\n") {
		var document status.Document
		if err := json.Unmarshal([]byte(line), &document); err != nil || document.Version != "1" || document.AsOf != []string{"a", "c"}[i] || document.Targets[0].Fresh != 3-i {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// If a daemon has no streams, the command polls. It reports an error if the daemon has neither
// streams nor the status, or if a response is not a stream.
func TestWatchWithoutStreams(t *testing.T) {
	printed, stop := startWatching(t, &watchedDaemon{polled: someStatus})
	testkit.Within(t, 20*time.Second, "the status", func() bool { return strings.Contains(printed.String(), "\ndead letters: 3") })
	if code, stderr := stop(); code != exitDone || stderr != "" {
		t.Errorf("exit %d: %s", code, stderr)
	}
	d := &watchedDaemon{events: make(chan string, 1)}
	d.events <- `change {}`
	if code, _, stderr := runCommand(t, map[string]string{"POOLD_URL": serverOf(t, d)}, "status", "--watch"); code != exitFailed || stderr != "poold status: the daemon answered 404 Not Found\n" {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func serverOf(t *testing.T, d *watchedDaemon) string {
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return server.URL
}

// openTerminal returns both ends of a terminal of the given size.
func openTerminal(t *testing.T, columns, lines uint16) (screen, end *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines})
	}
	if err == nil {
		end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end.Close() })
	return screen, end
}

// onTerminal runs poold with a terminal as stdout and returns the text that arrives there.
func onTerminal(t *testing.T, env map[string]string, until string, args ...string) string {
	t.Helper()
	terminal, end := openTerminal(t, 80, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		var log strings.Builder
		ended <- run(ctx, args, func(name string) (string, bool) { value, ok := env[name]; return value, ok }, end, &log)
	}()
	late := time.AfterFunc(time.Minute, func() {
		t.Errorf("%v does not print %q", args, until)
		_, _ = end.WriteString(until)
	})
	defer late.Stop()
	printed := ""
	for part := make([]byte, 64<<10); !strings.Contains(printed, until); {
		n, err := terminal.Read(part)
		if err != nil {
			t.Fatalf("%v: %q", err, printed)
		}
		printed = strings.ReplaceAll(printed+string(part[:n]), "\r\n", "\n") // a terminal adds the \r
	}
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("exit %d", code)
	}
	return printed
}

// On a terminal the status has colours, unless NO_COLOR is set. Each status replaces the previous
// one on the screen, and is cut to the size of the terminal. Control characters in a token or in a
// document do not reach the terminal.
func TestTerminal(t *testing.T) {
	d := &watchedDaemon{polled: someStatus}
	server := httptest.NewServer(d)
	defer server.Close()
	env := map[string]string{"POOLD_URL": server.URL}
	if text := onTerminal(t, env, "dead letters", "status"); !strings.Contains(text, "\x1b[31mstarved\x1b[0m ") || strings.Contains(text, "\x1b[H") {
		t.Errorf("%q", text)
	}
	if text := onTerminal(t, env, "more\x1b[K\n\x1b[J", "status", "--watch"); !strings.HasPrefix(text, "\x1b[Has of 2026-01-02T03:04:05Z\x1b[K\nPROVIDER") ||
		strings.Count(text, "\n") != 9 || !strings.Contains(text, "\n… and ") {
		t.Errorf("%q", text)
	}
	env["NO_COLOR"] = "1"
	if text := onTerminal(t, env, "dead letters", "status"); strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("token\x1b[2J\u009b\xff end"))
	}))
	defer hostile.Close()
	env["POOLD_URL"] = hostile.URL
	for _, args := range [][]string{{"token", "login"}, {"token", "login", "--json"}, {"status", "--json"}, {"history", "active", "--json"}} {
		if text := onTerminal(t, env, "end", args...); strings.TrimSpace(text) != "token\uFFFD[2J\uFFFD\uFFFD end" {
			t.Errorf("%v: %q", args, text)
		}
	}
}
