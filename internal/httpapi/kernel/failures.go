package kernel

import (
	"sync"
	"time"
)

const (
	// A sender gets at most wrongKeysMost responses with status 401 for wrong keys within
	// wrongKeysTime. The same limit applies to responses with status 404 for reports about unknown
	// tokens. Beyond the limit the sender gets status 429.
	wrongKeysMost = 20
	wrongKeysTime = time.Minute
	// At most wrongKeysFrom addresses have their own count of wrong keys; a count takes about 600
	// bytes. All further addresses share one count.
	wrongKeysFrom = 4096
)

// Failures limits the number of failed tries per sender and minute. A Failures keeps the times of
// the last tries for at most wrongKeysFrom senders; all further senders share one count. The zero
// value is empty.
type Failures[K comparable] struct {
	mu    sync.Mutex
	tries map[K]*tries
	swept time.Time // when the senders without recent tries were last dropped
}

// tries contains the times of the last failed tries of a sender.
type tries struct {
	at   [wrongKeysMost]time.Time // times of the tries; zero = no try
	next int                      // index of the oldest time
}

// Count counts a failed try. If the limit is reached, Count counts nothing and returns how long the
// sender must wait before its next try.
func (f *Failures[K]) Count(from K, at time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.triesOf(from, at)
	if oldest := t.at[t.next]; !oldest.IsZero() && at.Sub(oldest) < wrongKeysTime {
		return wrongKeysTime - at.Sub(oldest)
	}
	t.at[t.next] = at
	t.next = (t.next + 1) % wrongKeysMost
	return 0
}

func (f *Failures[K]) triesOf(from K, at time.Time) *tries {
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

// sweep removes the senders that have no recent tries. To save time, sweep visits the senders at
// most once a second.
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
