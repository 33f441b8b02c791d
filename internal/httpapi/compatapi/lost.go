package compatapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// lostFor is how long the task of a lost reply is kept for the next equal submission. Package
	// compat keeps an unpolled task equally long.
	lostFor = 30 * time.Second
	// mostLost is the maximum number of submissions with a lost reply that a replica keeps.
	mostLost = 4096
)

// submits contains those submissions to the compatible endpoints whose replies are not
// written yet or were lost. A client that repeats a submission after a lost reply gets the same
// task, because the client does not know the number of the task yet. After a successful reply the
// submission is dropped immediately, so that an equal later submission buys its own token. The zero
// value is empty.
type submits struct {
	mu    sync.Mutex
	of    map[submitKey][]*submit
	lost  int       // number of submissions with a lost reply
	swept time.Time // when expired submissions were last removed
}

// submitKey identifies the caller and the captcha of a submission. A repeated submission has the
// same key.
type submitKey struct {
	caller string // Caller.StableName
	id     captcha.ID
}

// submit is a submission whose reply is not written yet or was lost.
type submit struct {
	number string          // number of the task; "" = no task yet
	client context.Context //nolint:containedctx // ends when the client hangs up
	ended  chan struct{}   // closed when the reply was written or lost
	lost   time.Time       // when the reply was lost; zero = not lost
}

// begin adds a submission. If the reply to an earlier equal submission was lost, the new submission
// gets the task number of the earlier submission. If the client of an earlier equal submission has
// hung up before the reply, begin first waits until the earlier submission ends. The new submission
// may then get the task of the earlier submission.
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

// take removes the oldest submission with a lost reply and returns its task number. If there is
// none, take returns a pending submission whose client has hung up, or nil.
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

// end completes a submission. The argument lost is true if the client did not get the number of the
// task.
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

// sweepLocked removes the expired submissions with lost replies. A sweep visits all submissions, so
// at most one sweep runs per lostFor.
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
	// The list is copied, because the caller take still iterates over the old list.
	rest := slices.DeleteFunc(slices.Clone(ss.of[key]), func(other *submit) bool { return other == s })
	if len(rest) == 0 {
		delete(ss.of, key)
		return
	}
	ss.of[key] = rest
}
