package compatapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// lostFor is how long a task without an answered submit is kept for the next equal submit. It
	// is the time for which a task is held without a poll.
	lostFor = 30 * time.Second
	// mostLost is how many such tasks a replica keeps.
	mostLost = 4096
)

// submits are the submits of the compatible endpoints whose answers are not written yet,
// or did not reach the client. A client that repeats such a submit gets the same task,
// because it never learned the number of the first one. A submit that was answered is
// forgotten at once, so that an equal one buys its own token. The zero value is empty.
type submits struct {
	mu    sync.Mutex
	of    map[submitKey][]*submit
	lost  int       // how many of them have a lost answer
	swept time.Time // when expired ones were last removed
}

// submitKey identifies the caller and the captcha of a submit. A repeated submit has the same key.
type submitKey struct {
	caller string // Caller.StableName
	id     captcha.ID
}

// submit is a submit whose answer is not written yet or was lost.
type submit struct {
	number string          // of its task; "" = it has none yet
	client context.Context //nolint:containedctx // ends when the client hangs up
	ended  chan struct{}   // closed when its answer is written or lost
	lost   time.Time       // when its answer was lost; zero = it was not
}

// begin returns a submit, with the number of an earlier one whose answer was lost, if
// any. It waits for earlier ones whose clients hung up, because their numbers may come.
func (ss *submits) begin(ctx context.Context, key submitKey) *submit {
	for {
		number, leaving := ss.take(key)
		if number == "" && leaving != nil && ctx.Err() == nil {
			select {
			case <-leaving.ended:
			case <-ctx.Done():
			}
			continue
		}
		s := &submit{number: number, client: ctx, ended: make(chan struct{})}
		ss.mu.Lock()
		defer ss.mu.Unlock()
		if ss.of == nil {
			ss.of = map[submitKey][]*submit{}
		}
		ss.of[key] = append(ss.of[key], s)
		return s
	}
}

// take removes the oldest lost submit and returns its number. If there is none, it returns
// one whose client hung up.
func (ss *submits) take(key submitKey) (number string, leaving *submit) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.of[key] {
		switch {
		case s.lost.IsZero() && s.client.Err() != nil:
			leaving = s
		case !s.lost.IsZero():
			ss.removeLocked(key, s)
			if time.Since(s.lost) < lostFor {
				return s.number, nil
			}
		}
	}
	return "", leaving
}

// end ends a submit. lost: it has a number that its client did not get.
func (ss *submits) end(key submitKey, s *submit, lost bool) {
	defer close(s.ended)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.sweepLocked(); !lost || ss.lost >= mostLost {
		ss.removeLocked(key, s)
		return
	}
	s.lost = time.Now()
	ss.lost++
}

// sweepLocked removes the expired lost submits. It runs seldom because it visits all of them.
func (ss *submits) sweepLocked() {
	if ss.lost == 0 || time.Since(ss.swept) < lostFor {
		return
	}
	ss.swept = time.Now()
	for key, list := range ss.of {
		for _, s := range slices.Clone(list) {
			if !s.lost.IsZero() && time.Since(s.lost) >= lostFor {
				ss.removeLocked(key, s)
			}
		}
	}
}

func (ss *submits) removeLocked(key submitKey, s *submit) {
	if !s.lost.IsZero() {
		ss.lost--
	}
	// A copy: take ranges over the list.
	rest := slices.DeleteFunc(slices.Clone(ss.of[key]), func(other *submit) bool { return other == s })
	if len(rest) == 0 {
		delete(ss.of, key)
		return
	}
	ss.of[key] = rest
}
