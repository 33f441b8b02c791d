package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// statusEvery is the interval at which the status line is renewed.
	statusEvery = 10 * time.Second
	// sendLimit limits one message. A message blocks while the queue of systemd's socket is full.
	sendLimit = time.Second
)

// Notifier sends the state of the daemon to systemd. A nil *Notifier does nothing. A Notifier is safe
// for concurrent use.
type Notifier struct {
	address net.UnixAddr
	// watchdog is the interval after which systemd kills a daemon without a keep-alive; 0 = never.
	watchdog time.Duration
	log      *slog.Logger
	renew    chan struct{} // requests a new status line; capacity 1

	mu       sync.Mutex
	failing  bool // the last message failed, and a log line said so
	stopping bool // Stopping was called; systemd expects no other state afterwards
}

// New returns the Notifier for the environment that the argument lookup reads, or nil if the variable
// NOTIFY_SOCKET is missing. New logs if it is missing in a process that systemd started, and if
// WATCHDOG_USEC is not a number.
func New(lookup func(string) (string, bool), log *slog.Logger) *Notifier {
	socket, _ := lookup("NOTIFY_SOCKET")
	if socket == "" {
		if pid, _ := lookup("SYSTEMD_EXEC_PID"); pid == strconv.Itoa(os.Getpid()) {
			log.Warn("the unit has no NOTIFY_SOCKET, so systemd does not see the state of the daemon: write Type=notify")
		}
		return nil
	}
	return &Notifier{
		address: net.UnixAddr{Name: socket, Net: "unixgram"}, watchdog: watchdogOf(lookup, log), log: log,
		renew: make(chan struct{}, 1),
	}
}

// watchdogOf returns the interval of the watchdog, or 0 if the watchdog is off or watches another
// process.
func watchdogOf(lookup func(string) (string, bool), log *slog.Logger) time.Duration {
	text, _ := lookup("WATCHDOG_USEC")
	if pid, _ := lookup("WATCHDOG_PID"); text == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	const most = int64(time.Hour / time.Microsecond * 24 * 365)
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || usec < 1 || usec > most {
		log.Warn("the watchdog of systemd gets no keep-alive", "err", fmt.Sprintf("WATCHDOG_USEC is not a number of microseconds: %q", text))
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// Ready says that the daemon has started, or has ended a reload, and renews the status line.
func (n *Notifier) Ready() {
	if n == nil {
		return
	}
	n.send("READY=1")
	select {
	case n.renew <- struct{}{}:
	default:
	}
}

// Reload runs the given function between the messages RELOADING and READY. The function may fail: the
// daemon works on with its last configuration.
func (n *Notifier) Reload(reload func()) {
	if n != nil {
		n.send("RELOADING=1", "MONOTONIC_USEC="+monotonic(), "STATUS=reading the configuration file")
	}
	reload()
	n.Ready()
}

// monotonic returns the time of CLOCK_MONOTONIC in microseconds. systemd compares it with the time of
// its request for a reload.
func monotonic() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "0"
	}
	return strconv.FormatInt(now.Nano()/1000, 10)
}

// Stopping says that the daemon stops. Later calls of Ready and Reload send nothing.
func (n *Notifier) Stopping() {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.stopping = true
	n.mu.Unlock()
	n.post("STOPPING=1\nSTATUS=stopping: requests in flight finish")
}

// Part returns a function that renews the status line and sends the keep-alive of the watchdog until
// its context ends.
//
// The argument lastTurn returns when the main loop of the daemon began its last iteration, or zero
// before the first one. The argument status returns one line about the daemon.
func (n *Notifier) Part(lastTurn func() time.Time, status func(context.Context) string) func(context.Context) error {
	return func(ctx context.Context) error {
		if n == nil {
			return nil
		}
		var duties sync.WaitGroup
		duties.Go(func() { n.keepStatus(ctx, status) })
		if n.watchdog > 0 {
			duties.Go(func() { n.keepAlive(ctx, lastTurn) })
		}
		duties.Wait()
		return nil
	}
}

// keepStatus sends the status line every statusEvery, and after each Ready.
func (n *Notifier) keepStatus(ctx context.Context, status func(context.Context) string) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.renew:
		case <-ticker.C:
		}
		n.send("STATUS=" + oneLine(status(ctx)))
	}
}

// oneLine returns a text without line breaks, because a line break would begin another assignment.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// keepAlive sends the keep-alive at half the interval of the watchdog, if the main loop turned within
// the last interval. During the stop the loop has ended, and TimeoutStopSec of the unit limits the
// stop, so keepAlive then sends in any case.
func (n *Notifier) keepAlive(ctx context.Context, lastTurn func() time.Time) {
	ticker := time.NewTicker(n.watchdog / 2)
	defer ticker.Stop()
	begun := time.Now()
	for {
		last := lastTurn()
		if last.Before(begun) {
			last = begun // the loop gets one interval for its first turn
		}
		switch {
		case n.isStopping():
			n.post("WATCHDOG=1")
		case time.Since(last) < n.watchdog:
			n.send("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (n *Notifier) isStopping() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopping
}

// send sends assignments in one message, unless the daemon is stopping.
func (n *Notifier) send(assignments ...string) {
	if !n.isStopping() {
		n.post(strings.Join(assignments, "\n"))
	}
}

// post sends one message. It logs the first of several failures, and the success that ends them.
func (n *Notifier) post(message string) {
	err := n.write(message)
	n.mu.Lock()
	was := n.failing
	n.failing = err != nil
	n.mu.Unlock()
	switch {
	case err != nil && !was:
		n.log.Warn("systemd does not receive the state of the daemon, which continues to work", "err", err)
	case err == nil && was:
		n.log.Info("systemd receives the state of the daemon again")
	}
}

// write connects anew for each message, because systemd may have replaced its socket.
func (n *Notifier) write(message string) error {
	socket, err := net.DialUnix(n.address.Net, nil, &n.address)
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer func() { _ = socket.Close() }()
	if err = socket.SetWriteDeadline(time.Now().Add(sendLimit)); err == nil {
		_, err = socket.Write([]byte(message))
	}
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}
