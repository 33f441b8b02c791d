package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sort"
	"strconv"
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
	l := s.line(r.ID)
	mine := make(ear, 1)
	a, err := l.join(l.asker(r, mine))
	if err != nil {
		return Token{}, err
	}
	got, err := l.await(ctx, a, mine, r.Wait)
	if err != nil {
		return Token{}, err
	}
	if errors.Is(got.err, errNothing) || errors.Is(got.err, errFull) {
		return Token{}, l.empty(ctx, r, errors.Is(got.err, errFull))
	}
	if got.err == nil {
		got.token.ID = signer.name(got.token.ID, r.Caller)
	}
	return got.token, got.err
}

// await is how an asker gets its answer. Without a wait that takes one exchange
// with Redis, which has a limit of its own, so the caller need not be watched: it
// is looked at afterwards.
func (l *line) await(ctx context.Context, a *asker, mine ear, wait time.Duration) (answer, error) {
	if wait <= 0 {
		got := <-mine
		if err := ctx.Err(); err != nil {
			if got.err == nil {
				l.giveBack(ctx, got.token)
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
		_ = l.abandon(ctx, a, mine, false)
		return answer{}, ctx.Err()
	case <-timer.C:
		return answer{err: l.abandon(ctx, a, mine, true)}, nil
	}
}

// asker prepares a request for its line.
func (l *line) asker(r Request, caller ear) *asker {
	a := &asker{
		margin: r.Margin.Milliseconds(), need: max(r.Margin, r.MinTTL).Milliseconds(),
		minTTL: r.MinTTL.Milliseconds(), waits: r.Wait > 0, maxWaiting: r.MaxWaiting, rate: r.Rate, window: r.RatePer.Milliseconds(),
		ears: []ear{caller},
	}
	// The life it needs stands in front of a ticket, so that a script can judge
	// those of other replicas. All callers with one key have one ticket, everywhere.
	if r.Idempotency != "" {
		sum := sha256.Sum256([]byte(r.Idempotency))
		key := hex.EncodeToString(sum[:16])
		a.once = l.keys.once + key
		if a.waits {
			a.ticket = strconv.FormatInt(a.need, 10) + ":key:" + key
		}
	} else if a.waits {
		a.ticket = strconv.FormatInt(a.need, 10) + ":" + l.tokens.replica + ":" +
			strconv.FormatInt(l.tokens.tickets.Add(1), 10)
	}
	return a
}

// empty says when it makes sense to ask again: when the order that would serve
// this caller should land. The look behind it is shared for a quarter second.
func (l *line) empty(ctx context.Context, r Request, full bool) error {
	l.look.Lock()
	defer l.look.Unlock()
	if time.Since(l.lookedAt) > 250*time.Millisecond {
		// The caller's end must not spoil the answer for the others.
		l.looked, l.lookErr = l.tokens.Look(context.WithoutCancel(ctx), l.id, r.Margin, 0)
		l.lookedAt = time.Now()
	}
	if l.lookErr != nil {
		return l.lookErr
	}
	return &EmptyError{RetryAfter: landing(l.looked), Paused: l.looked.Paused, Full: full}
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
