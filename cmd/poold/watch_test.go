package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"poold/internal/testkit"
)

// The status is printed every 2 s, also after an outage, which is reported. An interrupt ends the
// command with success. With --json each status is one line.
func TestWatch(t *testing.T) {
	for _, c := range []struct{ args, stdout string }{
		{"log*", "as of 1\nPROVIDER"},
		{"--json", `"as_of":"1"`},
	} {
		asked := atomic.Int64{}
		daemon := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 2 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			_, _ = fmt.Fprintf(w, `{"as_of":"%d","targets":[{"name":"login","state":"starved","reason":"why\u001b[2J"},{"name":"other","state":"ok"}]}`, asked.Load())
		})
		ctx, cancel := context.WithCancel(t.Context())
		var printed, log testkit.Log
		ended := make(chan int, 1)
		go func() {
			lookup := func(name string) (string, bool) { return daemon, name == "POOLD_URL" }
			ended <- run(ctx, []string{"status", "--watch", c.args}, lookup, &printed, &log)
		}()
		testkit.Within(t, 20*time.Second, "the third status", func() bool {
			return strings.Contains(printed.String(), strings.Replace(c.stdout, "1", "3", 1))
		})
		cancel()
		if code, text := <-ended, printed.String(); code != exitDone || log.String() != "not live: the daemon answered 502 Bad Gateway\n" || !strings.Contains(text, c.stdout) || strings.Contains(text, "\x1b") {
			t.Errorf("exit %d, %s\n%s", code, log.String(), text)
		}
	}
}

// The command fails if the daemon does not answer at first, or refuses the key later.
func TestWatchFails(t *testing.T) {
	for _, c := range []struct {
		answers []int
		stderr  string
	}{
		{[]int{http.StatusNotFound}, "poold status: the daemon answered 404 Not Found\n"},
		{[]int{http.StatusOK, http.StatusUnauthorized}, "poold status: the daemon answered 401 Unauthorized\n"},
	} {
		asked := atomic.Int64{}
		daemon := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.answers[asked.Add(1)-1])
			_, _ = w.Write([]byte("{}"))
		})
		if code, _, stderr := runCommand(t, map[string]string{"POOLD_URL": daemon}, "status", "--watch"); code != exitFailed || stderr != c.stderr {
			t.Errorf("%v: exit %d: %s", c.answers, code, stderr)
		}
	}
}

func serverOf(t *testing.T, answer http.HandlerFunc) string {
	server := httptest.NewServer(answer)
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
	polls := atomic.Int64{}
	env := map[string]string{"POOLD_URL": serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(strings.Replace(someStatus, "2026", fmt.Sprint(2025+polls.Add(1)), 1)))
	})}
	if text := onTerminal(t, env, "dead letters", "status"); !strings.Contains(text, "\x1b[31mstarved\x1b[0m ") || strings.Contains(text, "\x1b[H") {
		t.Errorf("%q", text)
	}
	text := onTerminal(t, env, "\x1b[H\x1b[Jas of 2028", "status", "--watch")
	screens := strings.Split(text, "\x1b[H\x1b[J")
	if screens[0] != "" || !strings.HasPrefix(screens[1], "as of 2027-01-02T03:04:05Z\nPROVIDER") || strings.Count(screens[1], "\n") != 9 {
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
