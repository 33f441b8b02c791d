package ondemand

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/panics"
	"poold/internal/pool"
)

const (
	// mostShares limits the shares at one replica.
	mostShares = 4096
	// askEvery is the longest interval between two calls of Claims.Enter for a claim.
	askEvery = time.Second
	// claimsAway is how long pending callers keep waiting while the claim store is unavailable. New
	// callers immediately get the error.
	claimsAway = 10 * time.Second
)

// share is a claim that callers of this replica wait for. shares.mu guards the field waiters.
type share struct {
	key     captcha.ID
	bell    chan struct{} // signals that the claim has changed or a caller came; capacity 1
	waiters []*waiter     // in the order of arrival
}

// waiter is a caller that shares a solve.
type waiter struct {
	r    Request
	came time.Time
	out  chan outcome // capacity 1
	// solve names the solve that the caller waits for; "" = Claims.Enter has not been called for the caller
	// yet. Only the goroutine of the share uses this field.
	solve string
}

// shares contains the shares of this replica. It is safe for concurrent use.
type shares struct {
	claims  Claims
	tokens  Tokens
	take    func(ctx context.Context, r Request) (pool.Token, error)
	counter *counter
	log     *slog.Logger
	begun   *queue[*share]
	stopped chan struct{} // closed when run starts no more shares

	mu sync.Mutex
	of map[captcha.ID]*share
}

// wake reports an event of a claim, such as the end of its solve.
func (ss *shares) wake(key captcha.ID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sh := ss.of[key]; sh != nil {
		ring(sh.bell)
	}
}

func (ss *shares) solveFor(ctx context.Context, r Request) (pool.Token, error) {
	w := &waiter{r: r, came: time.Now(), out: make(chan outcome, 1)}
	sh, err := ss.join(w)
	if err != nil {
		return pool.Token{}, err
	}
	defer ss.remove(sh, w)
	timer := time.NewTimer(r.Take.Wait)
	defer timer.Stop()
	var got outcome
	select {
	case got = <-w.out:
	case <-ctx.Done():
		return pool.Token{}, ctx.Err()
	case <-timer.C:
		return pool.Token{}, &pool.EmptyError{}
	case <-r.Take.Over:
		return pool.Token{}, &pool.EmptyError{}
	case <-ss.stopped:
		return pool.Token{}, pool.ErrClosed
	}
	if got.err == nil {
		got.token.ID, got.err = ss.tokens.TokenID(ctx, got.token.ID, r.Take.Caller)
	}
	return got.token, got.err
}

// join adds a caller to the share of its key, and begins a share if the key has none.
func (ss *shares) join(w *waiter) (*share, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh := ss.of[w.r.Share.Key]
	switch {
	case sh == nil && len(ss.of) >= mostShares, sh != nil && len(sh.waiters) >= MostWaiting:
		return nil, &pool.EmptyError{Full: true}
	case sh == nil:
		sh = &share{key: w.r.Share.Key, bell: make(chan struct{}, 1)}
		ss.of[sh.key] = sh
		ss.begun.add(sh)
	default:
		ring(sh.bell)
	}
	sh.waiters = append(sh.waiters, w)
	return sh, nil
}

func (ss *shares) remove(sh *share, gone ...*waiter) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh.waiters = slices.DeleteFunc(sh.waiters, func(w *waiter) bool { return slices.Contains(gone, w) })
}

// run starts a goroutine for each new share until ctx ends. Each goroutine calls seeThrough. run
// returns when all these goroutines have ended.
func (ss *shares) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		ss.begun.run(ctx, mostShares, func(sh *share) {
			_ = panics.Contain(ss.log, panicMessage, func() { ss.seeThrough(ctx, sh) })
			ss.close(sh)
		})
	})
	<-ctx.Done()
	close(ss.stopped)
	all.Wait()
}

// close ends a share after seeThrough has returned or panicked. Remaining waiters get pool.ErrClosed.
func (ss *shares) close(sh *share) {
	ss.deliver(sh, ss.waitersOf(sh), outcome{err: pool.ErrClosed})
	_ = ss.waitersOf(sh) // removes the share
}

// waitersOf returns the waiters of a share. If the share has no waiters, waitersOf removes the share.
func (ss *shares) waitersOf(sh *share) []*waiter {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(sh.waiters) == 0 && ss.of[sh.key] == sh {
		delete(ss.of, sh.key)
	}
	return slices.Clone(sh.waiters)
}

// deliver sends an outcome to waiters and removes them from the share.
func (ss *shares) deliver(sh *share, waiters []*waiter, got outcome) {
	ss.remove(sh, waiters...)
	for _, w := range waiters {
		w.out <- got
	}
}

// seeThrough calls Claims.Enter for the claim of a share while callers of this replica wait for it.
// If this replica holds the claim, seeThrough takes a token.
func (ss *shares) seeThrough(ctx context.Context, sh *share) {
	solve, answered := "", time.Time{} // answered is the time of the last response of the claim store
	for ctx.Err() == nil {
		waiters := ss.waitersOf(sh)
		if len(waiters) == 0 {
			return
		}
		r := waiters[0].r
		claim, err := ss.claims.Enter(ctx, dedup.ClaimEntry{
			Key: sh.key, Solve: solve, Identity: r.Take.ID, Callers: len(waiters),
			Sitekey: r.Share.Sitekey, Pageurl: r.Share.Pageurl,
		})
		if err != nil {
			if time.Since(answered) < claimsAway {
				waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return !w.came.After(answered) })
			}
			ss.deliver(sh, waiters, outcome{err: err})
			ss.waitForEvent(ctx, sh)
			continue
		}
		answered = time.Now()
		switch claim.State {
		case dedup.ClaimShared:
			for _, w := range waiters {
				ss.deliver(sh, []*waiter{w}, readEnd(claim, w.r.Take.Margin))
			}
			solve = ""
		case dedup.ClaimError:
			// Callers that came after the end of the solve wait for the next solve.
			waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return w.solve != solve })
			ss.deliver(sh, waiters, readEnd(claim, r.Take.Margin))
			solve = ""
		case dedup.ClaimSolving, dedup.ClaimHeld:
			solve = claim.Solve
			for _, w := range waiters {
				w.solve = solve
			}
			if claim.State == dedup.ClaimSolving {
				ss.waitForEvent(ctx, sh)
			} else {
				ss.hold(ctx, sh, claim)
				answered = time.Now() // the claim store still responds
			}
		}
	}
}

// waitForEvent waits for an event of the claim, for at most askEvery.
func (ss *shares) waitForEvent(ctx context.Context, sh *share) {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-sh.bell:
	}
}
