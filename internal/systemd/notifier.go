// Package systemd reports the state of the daemon to systemd, with the notify protocol of a unit with
// Type=notify: ready, reloading, stopping, and the keep-alive of WatchdogSec. Without the
// variable NOTIFY_SOCKET the package does nothing. If systemd cannot be reached, the daemon logs one
// line and continues.
//
// The keep-alive is sent while the main loop of the daemon turns, whether or not Redis answers, because
// a restart would not repair Redis.
package systemd

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier sends the state of the daemon to systemd. A Notifier is safe for concurrent use.
type Notifier struct {
	log      *slog.Logger
	failed   sync.Once   // for the log line about the first message that failed
	stopping atomic.Bool // Stopping was called; systemd expects no other state afterwards
}

// New returns a Notifier.
func New(log *slog.Logger) *Notifier { return &Notifier{log: log} }

// Ready says that the daemon has started.
func (n *Notifier) Ready() { n.send(daemon.SdNotifyReady) }

// Reload runs the given function between the messages RELOADING and READY. The function may fail: the
// daemon works on with its last configuration.
func (n *Notifier) Reload(reload func()) {
	n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	reload()
	n.Ready()
}

// Stopping says that the daemon stops. Later calls of Ready and Reload send nothing.
func (n *Notifier) Stopping() {
	n.stopping.Store(true)
	n.post(daemon.SdNotifyStopping)
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
		begun := time.Now() // before its first turn, the loop has one interval
		for {
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

func (n *Notifier) post(message string) {
	if _, err := daemon.SdNotify(false, message); err != nil {
		n.failed.Do(func() {
			n.log.Warn("systemd does not receive the state of the daemon, which continues to work", "err", err)
		})
	}
}
