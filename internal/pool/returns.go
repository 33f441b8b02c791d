package pool

import (
	"context"
	"errors"
	"time"
)

// mostBack bounds the tokens of one identity that wait to be returned.
const mostBack = 10_000

var errFullBack = errors.New("pool: too many tokens wait to be put back")

// unwanted is a token whose caller hung up, until it is in the stock again.
type unwanted struct {
	token Token
	until time.Time // then it is dead
}

// Return takes a token back whose caller hung up before a byte of the answer
// was written. What was taken under an Idempotency-Key stays with its caller.
// It does not end with ctx. What Redis does not take within a second is offered to
// it until the token dies or the store closes, without the caller; an error says
// that this cannot be.
func (s *Tokens) Return(ctx context.Context, t Token) error {
	if t.handout == "" {
		return nil
	}
	if s.away(ctx, string(t.identity)) == nil && s.putBack(ctx, t) == nil {
		return nil
	}
	return s.queue(t.identity).giveBackLater(t) //nolint:contextcheck // the caller does not wait for it, so its context must not end it
}

// putBack runs the script once.
func (s *Tokens) putBack(ctx context.Context, t Token) error {
	k := s.keys(t.identity)
	// The caller is gone, and so may be its context; the token must not be.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	err := s.scripts.giveBack.Run(ctx, s.hot, []string{k.tokens, k.back + t.handout, k.tickets, k.stats},
		t.element, t.margin.Milliseconds(), s.channel(), string(t.identity)).Err()
	if err != nil {
		return err
	}
	s.news.stir(t.identity)
	return nil
}

// giveBack returns a token that nobody listens for any more.
func (q *takeQueue) giveBack(ctx context.Context, t Token) {
	if err := q.tokens.Return(ctx, t); err != nil {
		q.tokens.log.Warn("a token whose caller hung up could not be put back", "err", err)
	}
}

// giveBackLater hands tokens to the goroutine that returns them, and starts it.
func (q *takeQueue) giveBackLater(tokens ...Token) error {
	now := time.Now()
	q.mu.Lock()
	full := false
	for _, t := range tokens {
		if full = len(q.back) >= mostBack; full {
			break
		}
		if t.handout != "" {
			// Its TTL is as of the hand-out: it is dead by then.
			q.back = append(q.back, unwanted{token: t, until: now.Add(t.TTL)})
		}
	}
	start := len(q.back) > 0 && !q.returning
	q.returning = q.returning || start
	q.mu.Unlock()
	if start && !q.tokens.spawn(q.returnAll) {
		q.returnAll() // after Close: each gets one try
	}
	if full {
		return errFullBack
	}
	return nil
}

// returnAll returns what nobody listens for any more, until nothing is left or the
// store closes while Redis does not take it.
func (q *takeQueue) returnAll() {
	var failing error
	var returned, dead int
	wait := 50 * time.Millisecond
	for {
		next, ok := q.nextBack()
		if !ok {
			break
		}
		err := q.tokens.putBack(context.Background(), next.token)
		if err == nil {
			returned++
			q.dropBack()
			continue
		}
		if failing == nil {
			q.tokens.log.Warn("tokens whose callers hung up cannot be put back yet", "err", err)
		}
		failing = err
		if !time.Now().Before(next.until) {
			dead++
			q.dropBack()
			continue
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-q.tokens.closing:
			q.mu.Lock()
			left := len(q.back)
			q.back, q.returning = nil, false
			q.mu.Unlock()
			q.tokens.log.Warn("tokens whose callers hung up were not put back before the stop", "tokens", left, "err", err)
			return
		}
	}
	if failing != nil {
		q.tokens.log.Info("tokens whose callers hung up are put back", "tokens", returned, "died", dead)
	}
}

// nextBack is the next token to be returned; where it is false returnAll ends.
func (q *takeQueue) nextBack() (unwanted, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.back) == 0 {
		q.back, q.returning = nil, false
		return unwanted{}, false
	}
	return q.back[0], true
}

// dropBack takes it out.
func (q *takeQueue) dropBack() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.back = q.back[1:]
}
