package ondemand

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/panics"
	"poold/internal/pool"
)

const (
	// mostShares bounds the claims that callers wait for at one replica.
	mostShares = 4096
	// askEvery is how often a claim is asked for although nothing was heard of it.
	askEvery = time.Second
	// claimsAway is for how long those who wait bear that the claims do not answer. Who
	// comes meanwhile is told at once.
	claimsAway = 10 * time.Second
)

// claimed is a claim that callers wait for here. Its waiters are guarded by shares.mu.
type claimed struct {
	key     captcha.ID
	bell    chan struct{} // of one: the claim has changed, or a caller came
	waiters []*waiter     // in the order in which they came
}

// waiter is a caller that shares a solve.
type waiter struct {
	r   Request
	out chan outcome // has room for one
	// solve is the one that it waits for; "" = it has not been asked for yet. Only the
	// goroutine of the share uses it.
	solve string
}

// outcome is what a waiter is told.
type outcome struct {
	token pool.Token // its ID is the order's
	err   error
}

// shares are the claims that callers wait for at this replica. It is safe for concurrent
// use.
type shares struct {
	claims    Claims
	tokens    Tokens
	take      func(ctx context.Context, r Request) (pool.Token, error)
	count     func(source pool.Source)
	log       *slog.Logger
	begunBell chan struct{} // of one: something has begun
	stopped   chan struct{} // closed when nothing is begun any more
	active    atomic.Int64  // how many there are, so that a kick of no concern costs nothing

	mu    sync.Mutex
	of    map[captcha.ID]*claimed
	begun []*claimed // to be seen through
}

// kick says that something happened to a claim.
func (ss *shares) kick(key captcha.ID) {
	if ss.active.Load() == 0 {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sh := ss.of[key]; sh != nil {
		ring(sh.bell)
	}
}

// solveFor answers a request that shares a solve with its equals.
func (ss *shares) solveFor(ctx context.Context, r Request) (pool.Token, error) {
	w := &waiter{r: r, out: make(chan outcome, 1)}
	sh, err := ss.join(w)
	if err != nil {
		return pool.Token{}, err
	}
	defer ss.leave(sh, w)
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
		got.token.ID, got.err = ss.tokens.Name(ctx, got.token.ID, r.Take.Caller)
	}
	return got.token, got.err
}

// join adds a caller to the share of its key, and begins one where there is none.
func (ss *shares) join(w *waiter) (*claimed, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh := ss.of[w.r.Share.Key]
	switch {
	case sh == nil && len(ss.of) >= mostShares:
		return nil, &pool.EmptyError{Full: true}
	case sh == nil:
		sh = &claimed{key: w.r.Share.Key, bell: make(chan struct{}, 1)}
		ss.of[sh.key] = sh
		ss.active.Add(1)
		ss.begun = append(ss.begun, sh)
		ring(ss.begunBell)
	case len(sh.waiters) >= MostWaiting:
		return nil, &pool.EmptyError{Full: true}
	default:
		ring(sh.bell)
	}
	sh.waiters = append(sh.waiters, w)
	return sh, nil
}

func (ss *shares) leave(sh *claimed, w *waiter) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh.waiters = slices.DeleteFunc(sh.waiters, func(other *waiter) bool { return other == w })
}

// run sees each claim through that begins, in a goroutine of its own, until ctx ends; it
// returns when they have ended.
func (ss *shares) run(ctx context.Context) {
	var sharers errgroup.Group
	sharers.SetLimit(mostShares)
	defer func() { _ = sharers.Wait() }()
	defer close(ss.stopped)
	for ctx.Err() == nil {
		ss.mu.Lock()
		begun := ss.begun
		ss.begun = nil
		ss.mu.Unlock()
		for _, sh := range begun {
			sharers.Go(func() error {
				_ = panics.Contain(ss.log, faultMessage, func() { ss.seeThrough(ctx, sh) })
				ss.close(sh)
				return nil
			})
		}
		select {
		case <-ss.begunBell:
		case <-ctx.Done():
		}
	}
}

// close sends away those who wait for a share that nobody sees through any more: Run
// has ended, or there was a panic.
func (ss *shares) close(sh *claimed) {
	ss.tell(sh, ss.waitersOf(sh), outcome{err: pool.ErrClosed})
	_ = ss.waitersOf(sh) // takes it out
}

// waitersOf lists who waits. Where nobody does, the share is over.
func (ss *shares) waitersOf(sh *claimed) []*waiter {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(sh.waiters) == 0 && ss.of[sh.key] == sh {
		delete(ss.of, sh.key)
		ss.active.Add(-1)
	}
	return slices.Clone(sh.waiters)
}

// tell gives waiters their outcome; they wait no more.
func (ss *shares) tell(sh *claimed, told []*waiter, what outcome) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh.waiters = slices.DeleteFunc(sh.waiters, func(w *waiter) bool { return slices.Contains(told, w) })
	for _, w := range told {
		w.out <- what
	}
}

// seeThrough asks for a claim as long as anybody here waits for it, and solves where it
// becomes this replica's.
func (ss *shares) seeThrough(ctx context.Context, sh *claimed) {
	solve, answered := "", time.Now()
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
				waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return w.solve != "" })
			}
			ss.tell(sh, waiters, outcome{err: err})
			ss.rest(ctx, sh)
			continue
		}
		answered = time.Now()
		switch claim.State {
		case dedup.ClaimShared:
			for _, w := range waiters {
				ss.tell(sh, []*waiter{w}, readVerdict(claim, w.r.Take.Margin))
			}
			solve = ""
		case dedup.ClaimError:
			// Who came after the solve had ended may try anew.
			waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return w.solve != solve })
			ss.tell(sh, waiters, readVerdict(claim, r.Take.Margin))
			solve = ""
		case dedup.ClaimSolving, dedup.ClaimHeld:
			solve = claim.Solve
			for _, w := range waiters {
				w.solve = solve
			}
			if claim.State == dedup.ClaimSolving {
				ss.rest(ctx, sh)
			} else {
				ss.hold(ctx, sh, claim)
				answered = time.Now() // the claim was held until then
			}
		}
	}
}

// rest waits until something happens to a claim, or it is time to ask.
func (ss *shares) rest(ctx context.Context, sh *claimed) {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-sh.bell:
	}
}
