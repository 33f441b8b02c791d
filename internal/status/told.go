package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"poold/internal/panics"
)

const (
	// patience is how long a snapshot waits for a source that is asked beside the rest.
	patience = 250 * time.Millisecond
	// longestAnswer bounds such a question.
	longestAnswer = 10 * time.Second
	// A source that took longer than patience is asked again renewEvery after its answer,
	// by Run too while somebody watches. stillNew is how long its answer stands for what
	// is now; the next one has come by then.
	stillNew = renewEvery + longestAnswer + time.Second
)

// statusFault is the log line of a panic in this package.
const statusFault = "panic while making a status"

// errSlow: a source has said nothing for too long.
var errSlow = errors.New("no answer in time")

// told keeps what a source said last. It is asked beside the rest of a snapshot and never
// holds that up for more than patience, however slow it is. The zero value has been told
// nothing.
type told[T any] struct {
	mu       sync.Mutex
	answered chan struct{} // closed with the answer to the question under way; nil = none is
	value    T             // of the last good answer
	at       time.Time     // of it; zero = there was none
	err      error         // of the last answer
	slow     bool          // it took longer than patience
}

// ask begins a question, unless one is under way or a slow source has just answered, and
// returns a function that waits for the answer. That returns the last good one, and why
// it is not of now. Only who began a question waits for it: a source that hangs holds up
// one snapshot.
func (t *told[T]) ask(ctx context.Context, log *slog.Logger, question func(context.Context) (T, error)) (last func() (T, error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered != nil || t.slow && t.err == nil && time.Since(t.at) < renewEvery {
		return t.last
	}
	answered, until := make(chan struct{}), time.Now().Add(patience)
	t.answered = answered
	go t.question(context.WithoutCancel(ctx), log, question)
	return func() (T, error) {
		select {
		case <-answered:
		case <-time.After(time.Until(until)):
		}
		return t.last()
	}
}

// question puts a question and keeps the answer.
func (t *told[T]) question(ctx context.Context, log *slog.Logger, question func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, longestAnswer)
	defer cancel()
	began := time.Now()
	var value T
	var err error
	if fault := panics.Contain(log, statusFault, func() { value, err = question(ctx) }); fault != nil {
		err = fault
	}
	if err != nil {
		log.DebugContext(ctx, "asking a source of the status", slog.Any("err", err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slow = time.Since(began) > patience
	if t.err = err; err == nil {
		t.value, t.at = value, time.Now()
	}
	close(t.answered)
	t.answered = nil
}

// isSlow reports whether the last answer took longer than a snapshot waits.
func (t *told[T]) isSlow() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slow
}

// last returns the last good answer, and why it is not of now.
func (t *told[T]) last() (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && time.Since(t.at) > stillNew {
		return t.value, errSlow
	}
	return t.value, t.err
}
