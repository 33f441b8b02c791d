package pool

import (
	"context"
	"errors"
	"sort"
	"time"
)

// Take hands out one token. It returns as soon as there is one, else when the
// wait is over.
//
// Errors: *EmptyError, *RateError, ErrConflict, ErrDown, ErrClosed, and the
// context's own when the caller hung up; a token that was on its way to such a
// caller goes back into the stock, unless an Idempotency-Key keeps it for the
// caller's next try. After ErrDown nothing is lost either: what Redis may have
// handed out is taken back when it answers again.
func (s *Tokens) Take(ctx context.Context, r Request) (Token, error) {
	if r.Wait > 0 && s.draining.Load() {
		return Token{}, ErrClosed
	}
	if err := s.away(ctx, string(r.ID)); err != nil {
		return Token{}, err
	}
	signer, err := s.signing.signer(ctx)
	if err != nil {
		return Token{}, err
	}
	q := s.queue(r.ID)
	mine := make(listener, 1)
	w, err := q.join(q.newWaiter(r, mine))
	if err != nil {
		return Token{}, err
	}
	got, err := q.await(ctx, w, mine, r.Wait)
	if err != nil {
		return Token{}, err
	}
	if errors.Is(got.err, errNothing) || errors.Is(got.err, errFull) {
		return Token{}, q.empty(ctx, r, errors.Is(got.err, errFull))
	}
	if got.err == nil {
		got.token.ID = signer.name(got.token.ID, r.Caller)
	}
	return got.token, got.err
}

// await is how a waiter gets its answer. Without a wait that takes one exchange
// with Redis, which has a limit of its own, so the caller need not be watched: it
// is looked at afterwards.
func (q *takeQueue) await(ctx context.Context, w *waiter, mine listener, wait time.Duration) (answer, error) {
	if wait <= 0 {
		got := <-mine
		if err := ctx.Err(); err != nil {
			if got.err == nil {
				q.giveBack(ctx, got.token)
			}
			return answer{}, err
		}
		return got, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case got := <-mine:
		return got, nil
	case <-ctx.Done():
		_ = q.abandon(ctx, w, mine, false)
		return answer{}, ctx.Err()
	case <-timer.C:
		return answer{err: q.abandon(ctx, w, mine, true)}, nil
	}
}

// empty says when it makes sense to ask again: when the order that would serve
// this caller should land. The look behind it is shared for a quarter second.
func (q *takeQueue) empty(ctx context.Context, r Request, full bool) error {
	q.look.Lock()
	defer q.look.Unlock()
	if time.Since(q.lookedAt) > 250*time.Millisecond {
		// The caller's end must not spoil the answer for the others.
		q.looked, q.lookErr = q.tokens.Look(context.WithoutCancel(ctx), q.id, r.Margin, 0)
		q.lookedAt = time.Now()
	}
	if q.lookErr != nil {
		return q.lookErr
	}
	return &EmptyError{RetryAfter: landing(q.looked), Paused: q.looked.Paused, Full: full}
}

// landing estimates when an order will serve one more caller than those who are
// waiting; 0 where nothing is known.
func landing(s Stock) time.Duration {
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
