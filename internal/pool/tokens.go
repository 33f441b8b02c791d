package pool

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
)

// Tokens hands out tokens, takes back those that no caller received, and reads the stock.
type Tokens struct {
	*client

	notify  *notifier
	signing *signing
	returns *returns
	// onRequest is Options.OnRequest; may be nil.
	onRequest func(id captcha.ID, came time.Time)

	calls    atomic.Int64   // numbers the takes of this replica
	handouts atomic.Int64   // numbers its hand-outs
	tickets  atomic.Int64   // numbers its waiting callers
	draining atomic.Bool    // no caller may wait
	closing  chan struct{}  // closed by close
	workers  sync.WaitGroup // what spawn started

	mu     sync.Mutex
	queues map[captcha.ID]*takeQueue
	closed bool
}

// queue finds or makes the queue of an identity.
func (s *Tokens) queue(id captcha.ID) *takeQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[id]
	if q == nil {
		k := s.keys(id)
		q = &takeQueue{tokens: s, id: id, keys: s.script("take").KeysOf(k), once: k.once, bell: make(chan struct{}, 1), shared: map[string]*waiter{}}
		s.queues[id] = q
	}
	return q
}

// queueIdle is the idle time after which a queue is dropped, and the time between two sweeps.
const queueIdle = time.Minute

// forgetIdle forgets idle queues until ctx ends.
func (s *Tokens) forgetIdle(ctx context.Context) {
	ticker := time.NewTicker(queueIdle)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-ticker.C:
			s.forget(at, queueIdle)
		}
	}
}

// forget drops the queues that were idle for this long. Without it a process would keep a queue
// of every identity that it ever served.
func (s *Tokens) forget(at time.Time, idle time.Duration) {
	for _, q := range s.all() {
		if q.forget(at, idle) {
			s.drop(q)
		}
	}
}

// drop removes a forgotten queue; the next caller gets a new one. The old queue has no call in
// flight, so an identity never has two.
func (s *Tokens) drop(q *takeQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[q.id] == q {
		delete(s.queues, q.id)
	}
}

func (s *Tokens) all() []*takeQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.queues))
}

// wake makes the waiters of this replica ask again.
func (s *Tokens) wake(id captcha.ID) {
	s.mu.Lock()
	q := s.queues[id]
	s.mu.Unlock()
	if q != nil {
		q.wake()
	}
}

// endWaits ends every wait with ErrClosed and refuses new ones.
func (s *Tokens) endWaits() {
	s.draining.Store(true)
	for _, q := range s.all() {
		q.endWaits()
	}
}

// spawn runs work in a goroutine that close waits for; false after it.
func (s *Tokens) spawn(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.workers.Go(work)
	return true
}

// close ends all waits and waits for the calls in flight.
func (s *Tokens) close() {
	s.endWaits()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.workers.Wait()
}
