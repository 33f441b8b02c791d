package purchase

import (
	"context"
	"slices"
	"sync"
	"time"
)

// fairTurn: of so many places one goes to the target that has waited longest,
// whatever others bid, so that nobody goes without for ever.
const fairTurn = 4

// Bid says how much a place is worth to a target.
type Bid struct {
	Callers bool      // callers wait for the token: they come first
	Worth   float64   // callers whom the order is expected to save a wait, weighted
	Since   time.Time // when the target began to wait for this place
}

// beats reports whether the place is b's rather than the other's.
func (b Bid) beats(other Bid, fair bool) bool {
	switch {
	case fair || b.Callers && other.Callers:
		return b.Since.Before(other.Since)
	case b.Callers != other.Callers:
		return b.Callers
	case b.Worth != other.Worth:
		return b.Worth > other.Worth
	}
	return b.Since.Before(other.Since)
}

// line lets one caller at a time to the desk: the one with the best bid, and
// among equals the one that came first. The zero value is an empty line. A
// sync.Mutex would neither keep an order nor let a caller walk away.
type line struct {
	mu      sync.Mutex
	serving bool      // somebody is at the desk
	places  int       // given so far
	waiting []*bidder // in the order in which they came
}

// bidder is a caller in the line.
type bidder struct {
	Bid
	turn chan struct{} // closed when it is that caller's turn
}

// enter waits for the caller's turn. Without an error the caller must leave.
func (l *line) enter(ctx context.Context, bid Bid) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if !l.serving {
		l.serving = true
		l.mu.Unlock()
		return nil
	}
	mine := &bidder{Bid: bid, turn: make(chan struct{})}
	l.waiting = append(l.waiting, mine)
	l.mu.Unlock()

	select {
	case <-mine.turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, mine); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		// The turn came in the same moment; it goes to the next one.
		l.nextLocked()
	}
	return ctx.Err()
}

// first reports whether the place to come is that of the caller at the desk: it
// is not where somebody with a better bid has come meanwhile.
func (l *line) first(bid Bid) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	best := l.bestLocked()
	return best < 0 || !l.waiting[best].beats(bid, l.fairLocked())
}

// placed notes that the caller at the desk got its place.
func (l *line) placed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places++
}

// leave lets the next one in.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextLocked()
}

func (l *line) nextLocked() {
	best := l.bestLocked()
	if best < 0 {
		l.serving = false
		return
	}
	close(l.waiting[best].turn)
	l.waiting = slices.Delete(l.waiting, best, best+1)
}

// bestLocked is who waits with the best bid; -1 where nobody does.
func (l *line) bestLocked() int {
	best := -1
	for i, w := range l.waiting {
		if best < 0 || w.beats(l.waiting[best].Bid, l.fairLocked()) {
			best = i
		}
	}
	return best
}

func (l *line) fairLocked() bool { return l.places%fairTurn == fairTurn-1 }
