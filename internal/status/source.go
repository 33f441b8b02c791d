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
	// patience limits how long a snapshot waits for a source.
	patience = 250 * time.Millisecond
	// longestAnswer limits one query of a source.
	longestAnswer = 10 * time.Second
	// A source is slow if a query took longer than patience. The next query to a slow source starts at
	// least renewEvery after the last answer, and Run also starts queries while there are readers. An
	// answer counts as current for stillNew, which is long enough for the next query to end.
	stillNew = renewEvery + longestAnswer + time.Second
)

// panicMessage is the log message for a panic in this package.
const panicMessage = "panic while making a status"

// errSlow reports that the last answer of a source is too old.
var errSlow = errors.New("no answer in time")

// source runs a query concurrently with the rest of a snapshot, and keeps the last answer. A source
// delays a snapshot by at most patience. The zero value has no answer.
type source[T any] struct {
	mu       sync.Mutex
	answered chan struct{} // closed at the end of the query in flight; nil = no query is in flight
	value    T             // the last good answer
	at       time.Time     // time of value; zero = there is no value
	err      error         // error of the last query
	slow     bool          // the last query took longer than patience
}

// startQuery starts a query and returns a function that waits for the answer. The result of this
// function is the last good answer, with an error if this answer is not current.
//
// If another query is in flight, or if a slow source has just answered, startQuery starts no query,
// and the returned function does not wait. A source that hangs therefore delays only one snapshot.
func (s *source[T]) startQuery(ctx context.Context, log *slog.Logger, query func(context.Context) (T, error)) (answer func() (T, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered != nil || s.slow && s.err == nil && time.Since(s.at) < renewEvery {
		return s.last
	}
	answered, until := make(chan struct{}), time.Now().Add(patience)
	s.answered = answered
	go s.run(context.WithoutCancel(ctx), log, query)
	return func() (T, error) {
		select {
		case <-answered:
		case <-time.After(time.Until(until)):
		}
		return s.last()
	}
}

func (s *source[T]) run(ctx context.Context, log *slog.Logger, query func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, longestAnswer)
	defer cancel()
	began := time.Now()
	var value T
	var err error
	if fault := panics.Contain(log, panicMessage, func() { value, err = query(ctx) }); fault != nil {
		err = fault
	}
	if err != nil {
		log.DebugContext(ctx, "source of the status not read", slog.Any("err", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = time.Since(began) > patience
	if s.err = err; err == nil {
		s.value, s.at = value, time.Now()
	}
	close(s.answered)
	s.answered = nil
}

func (s *source[T]) isSlow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow
}

// last returns the last good answer, and an error if this answer is not current.
func (s *source[T]) last() (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && time.Since(s.at) > stillNew {
		return s.value, errSlow
	}
	return s.value, s.err
}
