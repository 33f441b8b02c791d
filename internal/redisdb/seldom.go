package redisdb

import (
	"maps"
	"sync"
	"time"
)

// Seldom limits how often this process writes a fact to Redis. Each fact has a name. Only the field
// Every needs a value.
type Seldom struct {
	Every time.Duration // minimum interval between two writes of one fact

	mu      sync.Mutex
	last    map[string]time.Time // time of the last successful write, by name
	dropped time.Time            // time of the last drop of the expired names, which visits all names
}

// Do calls the function write if at least the time Every has passed since the last successful write
// for this name.
func (s *Seldom) Do(name string, write func(at time.Time) error) error {
	at := time.Now()
	s.mu.Lock()
	last := s.last[name]
	s.mu.Unlock()
	if at.Sub(last) < s.Every {
		return nil
	}
	if err := write(at); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Sub(s.dropped) >= s.Every {
		maps.DeleteFunc(s.last, func(_ string, last time.Time) bool { return at.Sub(last) >= s.Every })
		s.dropped = at
	}
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	s.last[name] = at
	return nil
}
