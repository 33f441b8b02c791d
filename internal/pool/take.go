package pool

import (
	"context"
	"errors"
	"sort"
	"time"
)

// Take hands out one token. Take returns at the latest when the wait ends.
//
// Errors: *EmptyError, *RateError, *FailedError, ErrConflict, redisdb.ErrDown, ErrClosed, and the
// context's error if the caller hung up. If the caller hung up after Redis handed out its token, the
// token goes back into the stock. A token with an Idempotency-Key is kept for the caller's next try
// instead. After redisdb.ErrDown, tokens that Redis handed out go back into the stock when Redis
// responds again. While a cluster moves keys, or replaces or lacks a master, a caller with a wait waits.
func (s *Tokens) Take(ctx context.Context, r Request) (Token, error) {
	for began, left := time.Now(), r.Wait; ; left = r.Wait - time.Since(began) {
		attempt := r
		attempt.Wait = left
		token, err := s.take(ctx, attempt)
		if err == nil || left <= passingEvery || !s.db.Passing(err) {
			return token, err
		}
		select {
		case <-time.After(passingEvery):
		case <-ctx.Done():
			return Token{}, ctx.Err()
		case <-r.Over:
			return Token{}, err
		}
	}
}

// passingEvery is the pause between two tries of a take while DB.Passing reports true.
const passingEvery = 50 * time.Millisecond

// take tries once to hand out a token.
func (s *Tokens) take(ctx context.Context, r Request) (Token, error) {
	if r.Wait > 0 && s.draining.Load() {
		return Token{}, ErrClosed
	}
	if err := s.db.Away(ctx, string(r.ID)); err != nil {
		return Token{}, err
	}
	signer, err := s.secret.Signer(ctx)
	if err != nil {
		return Token{}, err
	}
	mine := make(listener, 1)
	q, w, err := s.join(r, mine)
	if err != nil {
		return Token{}, err
	}
	got, err := q.await(ctx, w, mine, r)
	if err != nil {
		return Token{}, err
	}
	if errors.Is(got.err, errNothing) || errors.Is(got.err, errFull) {
		return Token{}, q.empty(ctx, r, errors.Is(got.err, errFull))
	}
	if got.err == nil {
		got.token.ID = signer.ID(got.token.Order, r.Caller)
	}
	return got.token, got.err
}

// await returns the answer of a waiter. Without a wait, the answer needs one exchange with Redis,
// whose duration is limited. So await checks only after the exchange whether the caller hung up.
func (q *takeQueue) await(ctx context.Context, w *waiter, mine listener, r Request) (answer, error) {
	if r.Wait <= 0 {
		got := <-mine
		if err := ctx.Err(); err != nil {
			if got.err == nil {
				q.tokens.returnToken(got.token)
			}
			return answer{}, err
		}
		return got, nil
	}
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	select {
	case got := <-mine:
		return got, nil
	case <-ctx.Done():
		_ = q.abandon(w, mine, outcomeOf(ctx, r))
		return answer{}, ctx.Err()
	case <-timer.C:
	case <-r.Over:
	}
	return answer{err: q.abandon(w, mine, outcomeMissed)}, nil
}

// outcomeOf returns the outcome of a request whose context ended. A request for a target is not
// counted. A request for a guest counts as a miss if its caller hung up or its time was over, else as
// refused.
func outcomeOf(ctx context.Context, r Request) int {
	switch cause := context.Cause(ctx); {
	case !r.EndOnFailure:
		return outcomeNone
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return outcomeMissed
	}
	return outcomeRefused
}

// join puts a caller into the queue of its identity.
func (s *Tokens) join(r Request, mine listener) (*takeQueue, *waiter, error) {
	for {
		q := s.queue(r.ID)
		w, err := q.join(q.newWaiter(r, mine))
		if !errors.Is(err, errForgotten) {
			return q, w, err
		}
		s.drop(q) // the queue was forgotten between s.queue and q.join
	}
}

// lookShared is how long callers without a token share the result of one look.
const lookShared = 250 * time.Millisecond

// sharedLook is a call of Look. The callers without a token share its result.
type sharedLook struct {
	done  chan struct{} // closed when the other fields are set
	stock Stock
	err   error
	at    time.Time
}

// isStale reports whether the result is too old to be shared.
func (l *sharedLook) isStale() bool {
	select {
	case <-l.done:
		return time.Since(l.at) > lookShared
	default:
		return false
	}
}

// empty returns the *EmptyError for a caller without a token. RetryAfter is the
// estimated time until an order lands for this caller.
func (q *takeQueue) empty(ctx context.Context, r Request, full bool) error {
	l := q.shareLook(ctx, r.Margin)
	select {
	case <-l.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.err != nil {
		return l.err
	}
	return &EmptyError{RetryAfter: timeToLanding(l.stock), Paused: l.stock.Paused, Pause: l.stock.Pause, Full: full, Orders: l.stock.Orders, Waiting: l.stock.Waiting}
}

// shareLook returns the last look, or begins a new look if the last one is too old. The look
// continues even if the caller that began it hangs up.
func (q *takeQueue) shareLook(ctx context.Context, margin time.Duration) *sharedLook {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.look != nil && !q.look.isStale() {
		return q.look
	}
	ctx = context.WithoutCancel(ctx)
	l := &sharedLook{done: make(chan struct{})}
	q.look = l
	begun := q.tokens.spawn(func() {
		l.stock, l.err = q.tokens.Look(ctx, q.id, margin, 0)
		l.at = time.Now()
		close(l.done)
	})
	if !begun {
		l.err, l.at = ErrClosed, time.Now()
		close(l.done)
	}
	return l
}

// timeToLanding estimates the time until an order lands for a caller that comes after all pending
// callers; 0 = unknown.
func timeToLanding(s Stock) time.Duration {
	if len(s.Leads) == 0 || len(s.OrderAges) == 0 {
		return 0
	}
	leads := append([]time.Duration(nil), s.Leads...)
	sort.Slice(leads, func(i, j int) bool { return leads[i] < leads[j] })
	median := leads[len(leads)/2]
	if s.Waiting >= len(s.OrderAges) {
		return median
	}
	return max(time.Millisecond, median-s.OrderAges[s.Waiting])
}
