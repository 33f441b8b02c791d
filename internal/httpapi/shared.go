package httpapi

import (
	"sync"
	"time"
)

// shared keeps the last result of something that costs a round trip to Redis,
// so that scrapers and browsers cannot load it: a result is good for a while
// under one key, and callers that come while it is made wait for it together.
// The zero value is empty.
type shared[K comparable, T any] struct {
	mu    sync.Mutex
	key   K
	value T
	until time.Time // value is good before it; zero = there is none
	run   *making[K, T]
}

// making is a result under way. value is written before done is closed.
type making[K comparable, T any] struct {
	key   K
	done  chan struct{}
	value T
}

// get returns a result for key that is younger than life, making it if there
// is none. make runs in the goroutine of one of the callers and must end by
// itself, because the others wait for it.
func (s *shared[K, T]) get(key K, life time.Duration, build func() T) T {
	s.mu.Lock()
	if s.key == key && time.Now().Before(s.until) {
		defer s.mu.Unlock()
		return s.value
	}
	// A result that is being made for another key is too old already.
	if run := s.run; run != nil && run.key == key {
		s.mu.Unlock()
		<-run.done
		return run.value
	}
	run := &making[K, T]{key: key, done: make(chan struct{})}
	s.run = run
	s.mu.Unlock()

	made := false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.run == run {
			s.run = nil
			if made { // else make panicked: the next caller tries again
				s.key, s.value, s.until = key, run.value, time.Now().Add(life)
			}
		}
		close(run.done)
	}()
	run.value = build()
	made = true
	return run.value
}
