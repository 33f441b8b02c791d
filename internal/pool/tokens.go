package pool

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool/tokenid"
)

// Tokens hands out tokens, puts back tokens that no caller received, and reads the stock.
type Tokens struct {
	*client

	notify  *notifier
	secret  *tokenid.Secret
	returns *returns

	calls    atomic.Int64   // number of the last call of take.lua
	handouts atomic.Int64   // number of the last hand-out that can be returned
	tickets  atomic.Int64   // number of the last ticket of a caller without an Idempotency-Key
	draining atomic.Bool    // set when callers may no longer wait
	closing  chan struct{}  // closed when Tokens.close begins
	workers  sync.WaitGroup // counts the goroutines that Tokens.spawn started

	mu     sync.Mutex
	queues map[captcha.ID]*takeQueue
	closed bool
}

// queue returns the queue of an identity. If there is none, it makes a new queue.
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

// queueIdle is the idle time after which a queue is dropped. queueIdle is also the interval of the
// checks for idle queues.
const queueIdle = time.Minute

// Patience returns how long the last of this replica's waiting callers of an identity still waits; 0 if
// no caller waits.
func (s *Tokens) Patience(id captcha.ID) time.Duration {
	s.mu.Lock()
	q := s.queues[id]
	s.mu.Unlock()
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parked) == 0 {
		return 0
	}
	return max(0, time.Until(q.parked[len(q.parked)-1].until))
}

// forgetIdle drops idle queues until ctx ends.
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

// forget drops the queues that have been idle for the given time. Otherwise a process would keep a
// queue for every identity that it ever served.
func (s *Tokens) forget(at time.Time, idle time.Duration) {
	for _, q := range s.all() {
		if q.forget(at, idle) {
			s.drop(q)
		}
	}
}

// drop removes a forgotten queue. The next caller of the identity gets a new queue. The old queue has
// no call in flight, so an identity never has two calls in flight.
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

// wake makes the queue of an identity call take.lua again for its pending callers.
func (s *Tokens) wake(id captcha.ID) {
	s.mu.Lock()
	q := s.queues[id]
	s.mu.Unlock()
	if q != nil {
		q.wake()
	}
}

// endWaits ends every wait with ErrClosed and refuses new waits.
func (s *Tokens) endWaits() {
	s.draining.Store(true)
	for _, q := range s.all() {
		q.endWaits()
	}
}

// spawn runs the function work in a goroutine for which Tokens.close waits. After Tokens.close,
// spawn does not run it and returns false.
func (s *Tokens) spawn(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.workers.Go(work)
	return true
}

// close ends all waits, and then waits for the calls in flight.
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
