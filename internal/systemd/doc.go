// Package systemd reports the state of the daemon to systemd, with the notify protocol of a unit with
// Type=notify: ready, reloading, stopping, a status line, and the keep-alive of WatchdogSec.
//
// Each message is one datagram to the socket that the variable NOTIFY_SOCKET names: a path, or an
// abstract socket that begins with "@". Without this variable the package does nothing. If systemd
// cannot be reached, the daemon logs one line and continues. The library go-systemd writes the messages.
//
// The keep-alive is sent at half the interval of WATCHDOG_USEC, while the main loop of the daemon
// turns. The loop turns whether or not Redis answers, because a restart would not repair Redis.
package systemd
