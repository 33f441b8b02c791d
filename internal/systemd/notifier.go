package systemd

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// statusEvery is the interval at which the status line is renewed.
const statusEvery = 10 * time.Second

// Notifier sends the state of the daemon to systemd. A Notifier is safe for concurrent use.
type Notifier struct {
	log      *slog.Logger
	renew    chan struct{} // requests a new status line; capacity 1
	failing  atomic.Bool   // the last message failed, and a log line said so
	stopping atomic.Bool   // Stopping was called; systemd expects no other state afterwards
}

// New returns a Notifier. New logs if NOTIFY_SOCKET is missing in a process that systemd started.
func New(log *slog.Logger) *Notifier {
	if !notified() && os.Getenv("SYSTEMD_EXEC_PID") == strconv.Itoa(os.Getpid()) {
		log.Warn("the unit has no NOTIFY_SOCKET, so systemd does not see the state of the daemon: write Type=notify")
	}
	return &Notifier{log: log, renew: make(chan struct{}, 1)}
}

func notified() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// Ready says that the daemon has started, or has ended a reload, and renews the status line.
func (n *Notifier) Ready() {
	n.send(daemon.SdNotifyReady)
	select {
	case n.renew <- struct{}{}:
	default:
	}
}

// Reload runs the given function between the messages RELOADING and READY. The function may fail: the
// daemon works on with its last configuration.
func (n *Notifier) Reload(reload func()) {
	n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() + "STATUS=reading the configuration file")
	reload()
	n.Ready()
}

// Stopping says that the daemon stops. Later calls of Ready and Reload send nothing.
func (n *Notifier) Stopping() {
	n.stopping.Store(true)
	n.post(daemon.SdNotifyStopping + "\nSTATUS=stopping: requests in flight finish")
}

// KeepStatus returns a function that sends the status line every statusEvery, and after each Ready,
// until its context ends. The argument status returns one line about the daemon.
func (n *Notifier) KeepStatus(status func(context.Context) string) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(statusEvery)
		defer ticker.Stop()
		for notified() {
			select {
			case <-ctx.Done():
				return nil
			case <-n.renew:
			case <-ticker.C:
			}
			n.send("STATUS=" + strings.Join(strings.Fields(status(ctx)), " ")) // a line break would begin another assignment
		}
		return nil
	}
}

// KeepAlive returns a function that sends the keep-alive of the watchdog until its context ends: at
// half the interval, if the main loop turned within the last interval. The argument lastTurn returns
// when the loop began its last iteration, or zero before the first one. During the stop the loop has
// ended, and TimeoutStopSec of the unit limits the stop, so the keep-alive is then sent in any case.
func (n *Notifier) KeepAlive(lastTurn func() time.Time) func(context.Context) error {
	return func(ctx context.Context) error {
		interval, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			n.log.Warn("the watchdog of systemd gets no keep-alive", "err", err)
		}
		if interval <= 0 {
			return nil
		}
		ticker := time.NewTicker(interval / 2)
		defer ticker.Stop()
		for begun := time.Now(); ; {
			// Before its first turn, the loop has one interval.
			if n.stopping.Load() || min(time.Since(lastTurn()), time.Since(begun)) < interval {
				n.post(daemon.SdNotifyWatchdog)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	}
}

// send sends a message, unless the daemon is stopping.
func (n *Notifier) send(message string) {
	if !n.stopping.Load() {
		n.post(message)
	}
}

// post sends one message. It logs the first of several failures, and the success that ends them.
func (n *Notifier) post(message string) {
	_, err := daemon.SdNotify(false, message)
	switch was := n.failing.Swap(err != nil); {
	case err != nil && !was:
		n.log.Warn("systemd does not receive the state of the daemon, which continues to work", "err", err)
	case err == nil && was:
		n.log.Info("systemd receives the state of the daemon again")
	}
}
