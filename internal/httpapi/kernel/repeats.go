package kernel

import (
	"sync"
	"time"
)

const (
	// mostLines is the maximum number of lines that are remembered for one sender.
	mostLines = 100
	// mostSenders is the maximum number of senders whose lines are remembered.
	mostSenders = 4096
)

// Repeats leaves out repeated log lines about the same sender. A sender is a caller or an address.
// The zero value is empty.
type Repeats[K comparable] struct {
	mu    sync.Mutex
	of    map[K]map[string]*line // by text
	swept time.Time              // when the senders without recent lines were last dropped
}

// line is a logged line.
type line struct {
	until   time.Time // end of the period in which equal lines are left out
	repeats int       // number of lines that were left out
}

// Due reports whether a line about a sender must be logged, because no equal line about this sender
// was logged in the last period. The result repeats is the number of equal lines that were left out
// since the last logged one. If a sender has mostLines remembered lines, or if mostSenders senders
// are remembered, a new line is not logged until a remembered line is out of date.
func (r *Repeats[K]) Due(sender K, text string, period time.Duration, at time.Time) (repeats int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of[sender]
	switch last := known[text]; {
	case last != nil && at.Before(last.until):
		last.repeats++
		return 0, false
	case last != nil:
		repeats = last.repeats
	case !r.hasRoom(sender, at):
		return 0, false
	}
	if r.of == nil {
		r.of = map[K]map[string]*line{}
	}
	if known == nil {
		known = map[string]*line{}
		r.of[sender] = known
	}
	known[text] = &line{until: at.Add(period)}
	return repeats, true
}

// Has reports whether a line about a sender is remembered.
func (r *Repeats[K]) Has(sender K, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[sender][text] != nil
}

// hasRoom reports whether a sender may get a new line. To make room, it drops lines that are out of
// date.
func (r *Repeats[K]) hasRoom(sender K, at time.Time) bool {
	if known := r.of[sender]; known != nil {
		return len(known) < mostLines || dropOutdated(known, at)
	}
	if len(r.of) >= mostSenders && at.Sub(r.swept) >= time.Second {
		r.swept = at
		for other, known := range r.of {
			if dropOutdated(known, at); len(known) == 0 {
				delete(r.of, other)
			}
		}
	}
	return len(r.of) < mostSenders
}

// dropOutdated removes the lines whose period is over, and reports whether it removed any.
func dropOutdated(known map[string]*line, at time.Time) bool {
	before := len(known)
	for text, line := range known {
		if !at.Before(line.until) {
			delete(known, text)
		}
	}
	return len(known) < before
}
