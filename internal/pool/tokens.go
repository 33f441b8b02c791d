package pool

import (
	"maps"
	"poold/internal/captcha"
	"slices"
	"sync"
	"sync/atomic"
)

// Tokens hands out what waits, takes back what nobody received, and tells of both.
type Tokens struct {
	*client

	news    *news
	signing *signing

	calls    atomic.Int64   // numbers the takes of this replica
	handouts atomic.Int64   // numbers its hand-outs
	tickets  atomic.Int64   // numbers its waiting callers
	draining atomic.Bool    // nobody may wait any more
	closing  chan struct{}  // closed by close
	workers  sync.WaitGroup // goroutines that serve queues

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
		q = &takeQueue{tokens: s, id: id, keys: s.keys(id), bell: make(chan struct{}, 1), shared: map[string]*waiter{}}
		s.queues[id] = q
	}
	return q
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

// sendAway ends every wait with ErrClosed and refuses new ones.
func (s *Tokens) sendAway() {
	s.draining.Store(true)
	s.mu.Lock()
	queues := slices.Collect(maps.Values(s.queues))
	s.mu.Unlock()
	for _, q := range queues {
		q.sendAway()
	}
}

// spawn runs a queue's work in a goroutine that close waits for; false after it.
func (s *Tokens) spawn(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.workers.Go(work)
	return true
}

// close sends everybody away and waits for the calls under way.
func (s *Tokens) close() {
	s.sendAway()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.workers.Wait()
}
