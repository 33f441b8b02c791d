package redisdb

import (
	"maps"
	"sync"
	"time"
)

// mostSeldom is the number of names beyond which a Seldom drops expired ones.
const mostSeldom = 500

// Seldom limits how often this process writes a fact to Redis, by name. The zero value with
// Every set is ready for use.
type Seldom struct {
	Every time.Duration

	mu   sync.Mutex
	last map[string]time.Time // of the last successful write
}

// Do calls write unless it succeeded for this name within Every.
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
	if len(s.last) >= mostSeldom {
		maps.DeleteFunc(s.last, func(_ string, last time.Time) bool { return at.Sub(last) >= s.Every })
	}
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	s.last[name] = at
	return nil
}
