package kernel

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"time"
)

// wrongKeyEvery is the minimum interval between two equal log lines about wrong keys.
const wrongKeyEvery = time.Minute

// WrongKeys counts and logs wrong keys, which are keys that the configuration file lacks. The
// counts do not affect requests with right keys. Use NewWrongKeys.
type WrongKeys struct {
	Failures[netip.Prefix]

	log    *slog.Logger
	secret [sha256.Size]byte     // HMAC secret of the hashes in the log
	said   Repeats[netip.Prefix] // a text is the hash of a key; "" = all further keys of an address over its limit
}

// NewWrongKeys returns a WrongKeys. It draws a random secret for the hashes in the log. A reader of
// the log can compare the hashes of one process, but cannot test whether a hash belongs to a given
// key.
func NewWrongKeys(log *slog.Logger) *WrongKeys {
	w := &WrongKeys{log: log}
	_, _ = rand.Read(w.secret[:]) // never fails
	return w
}

// Count counts a wrong key that came from an address. If the limit is reached, Count counts nothing
// and returns how long the sender must wait.
func (w *WrongKeys) Count(remote string, at time.Time) (wait time.Duration) {
	return w.Failures.Count(network(remote), at)
}

// Refuse counts a wrong key that a request has sent, and logs the hash of the key. For each
// address, it logs the same key at most once a minute. If the limit of the address is reached,
// Refuse returns how long the sender must wait.
func (w *WrongKeys) Refuse(r *http.Request, c *Call, key string) (wait time.Duration) {
	wait = w.Count(r.RemoteAddr, c.Began)
	from, hash := network(r.RemoteAddr), w.hash(key)
	if wait > 0 && !w.said.Has(from, hash) {
		hash = ""
	}
	repeats, due := w.said.Due(from, hash, wrongKeyEvery, c.Began)
	if !due {
		return wait
	}
	attrs := []slog.Attr{slog.String("address", host(r.RemoteAddr)), slog.String("route", c.Route.Path)}
	if hash != "" {
		attrs = append(attrs, slog.String("key_hash", hash))
	}
	if repeats > 0 {
		attrs = append(attrs, slog.Int("repeats", repeats))
	}
	w.log.LogAttrs(r.Context(), slog.LevelWarn, "the configuration file does not have a caller's key; correct the key of this caller", attrs...)
	return wait
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

// network returns the sender to which a connection from a peer, given as address:port, is
// attributed. For IPv4 the sender is the address itself. For IPv6 the sender is the /64 network,
// because one host may use all addresses of a /64 network. For an address that is not an IP address,
// such as a unix socket, the result is the zero value. The function ignores headers that a proxy adds.
func network(remote string) netip.Prefix {
	socket, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := socket.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	from, _ := addr.Prefix(bits) // cannot fail: bits is at most the length of the address
	return from
}
