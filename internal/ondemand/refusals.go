package ondemand

import (
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// refusedFor is how long a rejection of the parameters is answered from memory, before
	// the stock is asked whether the next order may be placed.
	refusedFor = 30 * time.Second
	// mostRefusals bounds that memory.
	mostRefusals = 10_000
)

// refusals are the identities whose parameters a provider has just found fault with. It
// is safe for concurrent use.
type refusals struct {
	mu sync.Mutex
	of map[captcha.ID]refusal
}

type refusal struct {
	err   *SolveError
	until time.Time
}

// add remembers a refusal until then. If there are too many already it is forgotten at once:
// the stock will say it again.
func (rs *refusals) add(id captcha.ID, err *SolveError, until time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	at := time.Now()
	maps.DeleteFunc(rs.of, func(_ captcha.ID, r refusal) bool { return !at.Before(r.until) })
	if len(rs.of) < mostRefusals {
		rs.of[id] = refusal{err, until}
	}
}

// get is the refusal of an identity, nil for none.
func (rs *refusals) get(id captcha.ID, at time.Time) *SolveError {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.of[id]; ok && at.Before(r.until) {
		return r.err
	}
	return nil
}
