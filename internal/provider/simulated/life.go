package simulated

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// life owns the work that outlives a call, and the calls that a fault holds. After end it
// begins anew. All methods are safe for concurrent use.
type life struct {
	mu      sync.Mutex // guards what follows, which end replaces
	ctx     context.Context
	cancel  context.CancelFunc
	running *sync.WaitGroup
}

func newLife() *life {
	l := new(life)
	l.beginLocked()
	return l
}

func (l *life) beginLocked() {
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running = new(sync.WaitGroup)
}

// end cancels all work and waits for it.
func (l *life) end() {
	l.mu.Lock()
	cancel, running := l.cancel, l.running
	l.beginLocked()
	l.mu.Unlock()
	cancel()
	running.Wait()
}

// work registers some work, which calls done when it is over. ctx ends with the life.
func (l *life) work() (ctx context.Context, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running.Add(1)
	return l.ctx, l.running.Done
}

// sleep waits, for ever if d is 0. It returns false if the caller or the life ends first.
func (l *life) sleep(r *http.Request, d time.Duration) bool {
	l.mu.Lock()
	ctx := l.ctx
	l.mu.Unlock()
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
		return true
	case <-r.Context().Done():
	case <-ctx.Done():
	}
	return false
}
