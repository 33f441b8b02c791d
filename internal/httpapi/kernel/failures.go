package kernel

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// Within wrongKeysTime, wrongKeysMost wrong keys of a sender are answered with 401, and as many
	// reports about unknown tokens with 404. After that the sender gets 429.
	wrongKeysMost = 20
	wrongKeysTime = time.Minute
	// wrongKeysFrom limits the addresses whose wrong keys are counted, at about 600 bytes each;
	// further addresses count as one.
	wrongKeysFrom = 4096
)

// WrongKeys counts the wrong keys of each address. A right key is never looked up
// here. The zero value is empty.
type WrongKeys struct{ Failures[netip.Prefix] }

// Count counts a wrong key, or returns how long its sender must wait.
func (w *WrongKeys) Count(remote string, at time.Time) (wait time.Duration) {
	return w.Failures.Count(network(remote), at)
}

// Failures limits the failed tries of each sender in a minute. It keeps the last tries of
// at most wrongKeysFrom senders; further senders count as one. The zero value is empty.
type Failures[K comparable] struct {
	mu    sync.Mutex
	tries map[K]*tries
	swept time.Time // the last time the senders without recent tries were dropped
}

// tries are the last failed tries of a sender.
type tries struct {
	at   [wrongKeysMost]time.Time // zero: there was none
	next int                      // index of the oldest
}

// Count counts a failed try, or returns how long the sender must wait before the next.
func (f *Failures[K]) Count(from K, at time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of(from, at)
	if oldest := t.at[t.next]; !oldest.IsZero() && at.Sub(oldest) < wrongKeysTime {
		return wrongKeysTime - at.Sub(oldest)
	}
	t.at[t.next] = at
	t.next = (t.next + 1) % wrongKeysMost
	return 0
}

// of returns the tries of a sender.
func (f *Failures[K]) of(from K, at time.Time) *tries {
	if t := f.tries[from]; t != nil {
		return t
	}
	if len(f.tries) >= wrongKeysFrom {
		f.sweep(at)
	}
	if len(f.tries) >= wrongKeysFrom {
		from = *new(K)
		if t := f.tries[from]; t != nil {
			return t
		}
	}
	if f.tries == nil {
		f.tries = make(map[K]*tries)
	}
	t := &tries{}
	f.tries[from] = t
	return t
}

// sweep drops the senders without recent tries, at most once a second because it looks
// at all of them.
func (f *Failures[K]) sweep(at time.Time) {
	if at.Sub(f.swept) < time.Second {
		return
	}
	f.swept = at
	for from, t := range f.tries {
		newest := t.at[(t.next+wrongKeysMost-1)%wrongKeysMost]
		if at.Sub(newest) >= wrongKeysTime {
			delete(f.tries, from)
		}
	}
}

// network returns the sender of an address. With IPv6 that is a /64, because a host may use all
// its addresses. A proxy's headers do not count. An address that is not IP, such as a
// unix socket's, has the zero value.
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
	from, _ := addr.Prefix(bits) // bits is in range
	return from
}
