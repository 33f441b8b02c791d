package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// mostReturns is the maximum number of an identity's tokens that wait to be put back.
const mostReturns = 10_000

var errFullReturns = fmt.Errorf("pool: %d tokens already wait to be returned", mostReturns)

// Return puts back a token whose caller hung up before a byte of the response was written. A token of
// an Idempotency-Key is not put back, because the caller can request it again. Return does not wait
// for Redis: a goroutine retries until the token dies or the store closes. Return fails if too many
// tokens of the identity are queued.
func (s *Tokens) Return(t Token) error {
	if t.handout == "" {
		return nil
	}
	return s.returns.add(t)
}

func (s *Tokens) returnToken(t Token) {
	if err := s.Return(t); err != nil {
		s.log.Warn("token not returned after its caller hung up", "identity", t.identity, "err", err)
	}
}

// returns puts tokens back into the stock. Each identity has its own goroutine, so that a
// node that fails does not delay the tokens of other nodes.
type returns struct {
	*client

	notify  *notifier
	spawn   func(func()) bool // Tokens.spawn
	closing <-chan struct{}

	mu      sync.Mutex
	pending map[captcha.ID][]pendingReturn // tokens that are not back in Redis yet; each of these identities has one goroutine
}

type pendingReturn struct {
	token Token
	until time.Time // time by which the token is dead
}

func (r *returns) add(t Token) error {
	id := t.identity
	r.mu.Lock()
	waiting, working := r.pending[id]
	if len(waiting) >= mostReturns {
		r.mu.Unlock()
		return errFullReturns
	}
	// The TTL began at the hand-out, which is past. So the token is certainly dead at now + TTL.
	r.pending[id] = append(waiting, pendingReturn{token: t, until: time.Now().Add(t.TTL)})
	r.mu.Unlock()
	if !working && !r.spawn(func() { r.putBackAll(id) }) {
		r.putBackAll(id) // after Close, putBackAll stops at the first error
	}
	return nil
}

// putBackAll puts back the pending tokens of an identity. putBackAll stops when no token is left, or
// if Redis fails after the store has closed.
func (r *returns) putBackAll(id captcha.ID) {
	var failing error
	var returned, dead int
	wait := 50 * time.Millisecond
	for next, ok := r.next(id, 0); ok; next, ok = r.next(id, 1) {
		for err := r.putBack(next.token); err != nil; err = r.putBack(next.token) {
			if failing == nil {
				r.log.Warn("cannot return tokens of callers that hung up yet; retrying", "identity", id, "err", err)
			}
			failing = err
			if !time.Now().Before(next.until) {
				dead++
				returned--
				break
			}
			select {
			case <-time.After(wait):
				wait = min(2*wait, time.Second)
			case <-r.closing:
				r.log.Warn("tokens of callers that hung up not returned before the stop", "identity", id, "tokens", r.forget(id), "err", err)
				return
			}
		}
		returned++
	}
	if failing != nil {
		r.log.Info("returned tokens of callers that hung up", "identity", id, "tokens", returned, "expired", dead)
	}
}

func (r *returns) putBack(t Token) error {
	ctx, cancel := context.WithTimeout(context.Background(), redisdb.CallTimeout)
	defer cancel()
	if err := r.db.Away(ctx, string(t.identity)); err != nil {
		return err
	}
	k := r.keys(t.identity)
	k.handout += t.handout
	keys, values := r.script("giveback").Input(k, args{"element": t.element, "margin_ms": t.margin, "channel": r.db.Channel(), "identity": t.identity})
	err := r.script("giveback").Run(ctx, r.db.Hot, keys, values...).Err()
	if err == nil {
		r.notify.wakeWaiters(t.identity)
	}
	return err
}

// next removes the first n tokens from an identity's queue and returns the following
// token. If the queue is then empty, the result is false and putBackAll ends.
func (r *returns) next(id captcha.ID, n int) (pendingReturn, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[id] = r.pending[id][n:]
	if len(r.pending[id]) == 0 {
		delete(r.pending, id)
		return pendingReturn{}, false
	}
	return r.pending[id][0], true
}

// forget drops the pending tokens of an identity and returns their number.
func (r *returns) forget(id captcha.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.pending, id)
	return len(r.pending[id])
}
