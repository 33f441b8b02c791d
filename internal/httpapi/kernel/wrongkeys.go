package kernel

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// wrongKeyEvery is the time in which equal lines about wrong keys are logged once.
const wrongKeyEvery = time.Minute

// WrongKeys counts and logs the keys that the configuration file does not have. The counts do not
// affect requests with right keys. Use NewWrongKeys.
type WrongKeys struct {
	Failures[netip.Prefix]

	log    *slog.Logger
	secret [sha256.Size]byte // keys the hashes in the log
	mu     sync.Mutex
	lines  map[wrongKey]*wrongKeyLine
	swept  time.Time // when the outdated lines were last dropped
}

// wrongKey identifies the log line about a wrong key.
type wrongKey struct {
	from netip.Prefix
	hash string // "" = the line about all further keys of an address that sends too many
}

type wrongKeyLine struct {
	logged  time.Time // when the line was last logged
	repeats int       // number of equal lines that were left out since then
}

// NewWrongKeys returns a WrongKeys. It draws a secret for the hashes in the log, so that two lines of
// one process can be compared, and nobody can try keys against the log.
func NewWrongKeys(log *slog.Logger) *WrongKeys {
	w := &WrongKeys{log: log, lines: map[wrongKey]*wrongKeyLine{}}
	_, _ = rand.Read(w.secret[:]) // never fails
	return w
}

// Count counts a wrong key that came from an address. If the limit is reached, Count counts nothing
// and returns how long the sender must wait.
func (w *WrongKeys) Count(remote string, at time.Time) (wait time.Duration) {
	return w.Failures.Count(network(remote), at)
}

// Refuse counts a wrong key that a request has sent, and logs the key once a minute for each
// address. If the limit of the address is reached, Refuse returns how long the sender must wait.
func (w *WrongKeys) Refuse(r *http.Request, c *Call, key string) (wait time.Duration) {
	wait = w.Count(r.RemoteAddr, c.Began)
	name := wrongKey{network(r.RemoteAddr), w.hash(key)}
	repeats, due := w.due(&name, wait > 0, c.Began)
	if !due {
		return wait
	}
	attrs := []slog.Attr{slog.String("address", host(r.RemoteAddr)), slog.String("route", c.Route.Path)}
	if name.hash != "" {
		attrs = append(attrs, slog.String("key_hash", name.hash))
	}
	if repeats > 0 {
		attrs = append(attrs, slog.Int("repeats", repeats))
	}
	w.log.LogAttrs(r.Context(), slog.LevelWarn, "the configuration file does not have a caller's key; correct the key of this caller", attrs...)
	return wait
}

// due reports whether the line about a wrong key must be logged, and the number of equal lines that
// were left out before. Beyond the limit of an address, all its new keys share one line, and due
// removes the hash from the name. The number of lines is limited; further lines are left out.
func (w *WrongKeys) due(name *wrongKey, limited bool, at time.Time) (repeats int, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := w.lines[*name]
	if line == nil && limited {
		name.hash = ""
		line = w.lines[*name]
	}
	if line == nil {
		if len(w.lines) >= wrongKeysFrom {
			w.sweepLocked(at)
		}
		if len(w.lines) >= wrongKeysFrom {
			return 0, false
		}
		w.lines[*name] = &wrongKeyLine{logged: at}
		return 0, true
	}
	if at.Sub(line.logged) < wrongKeyEvery {
		line.repeats++
		return 0, false
	}
	repeats, line.repeats, line.logged = line.repeats, 0, at
	return repeats, true
}

// sweepLocked drops the lines that are older than wrongKeyEvery, at most once a second.
func (w *WrongKeys) sweepLocked(at time.Time) {
	if at.Sub(w.swept) < time.Second {
		return
	}
	w.swept = at
	for name, line := range w.lines {
		if at.Sub(line.logged) >= wrongKeyEvery {
			delete(w.lines, name)
		}
	}
}

// hash returns a short hash of a key for the log.
func (w *WrongKeys) hash(key string) string {
	mac := hmac.New(sha256.New, w.secret[:])
	_, _ = mac.Write([]byte(key)) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// host returns the address of a peer without the port.
func host(remote string) string {
	if socket, err := netip.ParseAddrPort(remote); err == nil {
		return socket.Addr().Unmap().String()
	}
	return remote
}
