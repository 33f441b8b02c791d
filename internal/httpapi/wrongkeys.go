package httpapi

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// wrongKeysMost wrong keys in wrongKeysTime are answered with 401; beyond that their
	// sender has to wait (429).
	wrongKeysMost = 20
	wrongKeysTime = time.Minute
	// wrongKeysFrom is of how many addresses wrong keys are counted, at about 600
	// bytes each; the others count as one.
	wrongKeysFrom = 4096
)

// wrongKeys counts the wrong keys that come from an address. It slows those down
// who guess; a right key is never looked up here. The zero value is empty.
type wrongKeys struct {
	mu    sync.Mutex
	tries map[netip.Prefix]*tries
	swept time.Time // when the addresses that stopped were last forgotten
}

// tries are the last wrong keys of an address.
type tries struct {
	at   [wrongKeysMost]time.Time // zero: there was none
	next int                      // the oldest of them
}

// count notes a wrong key, or returns how long its sender must wait.
func (w *wrongKeys) count(remote string, at time.Time) (wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.of(network(remote), at)
	if oldest := t.at[t.next]; !oldest.IsZero() && at.Sub(oldest) < wrongKeysTime {
		return wrongKeysTime - at.Sub(oldest)
	}
	t.at[t.next] = at
	t.next = (t.next + 1) % wrongKeysMost
	return 0
}

// of returns the tries of an address. Where there is no room for another one, it
// shares those of all that have none.
func (w *wrongKeys) of(from netip.Prefix, at time.Time) *tries {
	if t := w.tries[from]; t != nil {
		return t
	}
	if len(w.tries) >= wrongKeysFrom {
		w.sweep(at)
	}
	if len(w.tries) >= wrongKeysFrom {
		from = netip.Prefix{}
		if t := w.tries[from]; t != nil {
			return t
		}
	}
	if w.tries == nil {
		w.tries = make(map[netip.Prefix]*tries)
	}
	t := &tries{}
	w.tries[from] = t
	return t
}

// sweep forgets the addresses that sent none for so long; once a second, because
// it looks at all of them.
func (w *wrongKeys) sweep(at time.Time) {
	if at.Sub(w.swept) < time.Second {
		return
	}
	w.swept = at
	for from, t := range w.tries {
		newest := t.at[(t.next+wrongKeysMost-1)%wrongKeysMost]
		if at.Sub(newest) >= wrongKeysTime {
			delete(w.tries, from)
		}
	}
}

// network is what counts as one address: with IPv6 a /64, within which a host
// takes the addresses that it likes. A proxy's word for it does not count. What is
// no address, such as a unix socket's, is the zero value.
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
	from, _ := addr.Prefix(bits) // so many bits it has
	return from
}
