package purchase

import (
	"container/list"
	"context"
	"sync"
)

// line lets one caller at a time to the desk, strictly in the order in which
// they came. The zero value is an empty line. A sync.Mutex would neither keep
// that order nor let a caller walk away.
type line struct {
	mu      sync.Mutex
	serving bool      // somebody is at the desk
	waiting list.List // of chan struct{}, closed when it is that caller's turn
}

// enter waits for the caller's turn. Without an error the caller must leave.
func (l *line) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if !l.serving {
		l.serving = true
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := l.waiting.PushBack(turn)
	l.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn:
		// The turn came in the same moment; it goes to the next one.
		l.nextLocked()
	default:
		l.waiting.Remove(place)
	}
	return ctx.Err()
}

// leave lets the next one in.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextLocked()
}

func (l *line) nextLocked() {
	first := l.waiting.Front()
	if first == nil {
		l.serving = false
		return
	}
	close(l.waiting.Remove(first).(chan struct{}))
}
