package ondemand

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
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

var errManyShares = errors.New("too many solves are shared here at once")

// claimed is a claim that callers wait for here. Its waiters are guarded by Service.mu.
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

// shared answers a request that shares a solve with its equals.
func (s *Service) shared(ctx context.Context, r Request) (pool.Token, error) {
	w := &waiter{r: r, out: make(chan outcome, 1)}
	sh, err := s.joinShare(w)
	if err != nil {
		return pool.Token{}, err
	}
	defer s.leaveShare(sh, w)
	timer := time.NewTimer(r.Take.Wait)
	defer timer.Stop()
	var got outcome
	select {
	case got = <-w.out:
	case <-ctx.Done():
		return pool.Token{}, ctx.Err()
	case <-timer.C:
		return pool.Token{}, &pool.EmptyError{}
	case <-s.stopped:
		return pool.Token{}, pool.ErrClosed
	}
	if got.err == nil {
		got.token.ID, got.err = s.tokens.Name(ctx, got.token.ID, r.Take.Caller)
	}
	return got.token, got.err
}

// joinShare adds a caller to the share of its key, and begins one where there is none.
func (s *Service) joinShare(w *waiter) (*claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shares[w.r.Share.Key]
	switch {
	case sh == nil && len(s.shares) >= mostShares:
		return nil, errManyShares
	case sh == nil:
		sh = &claimed{key: w.r.Share.Key, bell: make(chan struct{}, 1)}
		s.shares[sh.key] = sh
		s.active.Add(1)
		s.begun = append(s.begun, sh)
		ring(s.begunBell)
	case len(sh.waiters) >= MostWaiting:
		return nil, &pool.EmptyError{Full: true}
	}
	sh.waiters = append(sh.waiters, w)
	ring(sh.bell)
	return sh, nil
}

func (s *Service) leaveShare(sh *claimed, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.waiters = slices.DeleteFunc(sh.waiters, func(other *waiter) bool { return other == w })
}

// startShares starts a goroutine for each share that begins, until ctx ends.
func (s *Service) startShares(ctx context.Context, sharers *errgroup.Group) {
	defer close(s.stopped)
	for ctx.Err() == nil {
		s.mu.Lock()
		begun := s.begun
		s.begun = nil
		s.mu.Unlock()
		for _, sh := range begun {
			sharers.Go(func() error {
				s.contain(func() { s.seeThrough(ctx, sh) })
				s.close(sh)
				return nil
			})
		}
		select {
		case <-s.begunBell:
		case <-ctx.Done():
		}
	}
}

// close sends away those who wait for a share that nobody sees through any more: Run
// has ended, or there was a panic.
func (s *Service) close(sh *claimed) {
	s.tell(sh, s.waitersOf(sh), outcome{err: pool.ErrClosed})
	_ = s.waitersOf(sh) // takes it out
}

// waitersOf lists who waits. Where nobody does, the share is over.
func (s *Service) waitersOf(sh *claimed) []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sh.waiters) == 0 && s.shares[sh.key] == sh {
		delete(s.shares, sh.key)
		s.active.Add(-1)
	}
	return slices.Clone(sh.waiters)
}

// tell gives waiters their outcome; they wait no more.
func (s *Service) tell(sh *claimed, told []*waiter, what outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.waiters = slices.DeleteFunc(sh.waiters, func(w *waiter) bool { return slices.Contains(told, w) })
	for _, w := range told {
		w.out <- what
	}
}

// seeThrough asks for a claim as long as anybody here waits for it, and solves where it
// becomes this replica's.
func (s *Service) seeThrough(ctx context.Context, sh *claimed) {
	solve, answered := "", time.Now()
	for ctx.Err() == nil {
		waiters := s.waitersOf(sh)
		if len(waiters) == 0 {
			return
		}
		r := waiters[0].r
		claim, err := s.claims.Enter(ctx, pool.ClaimEntry{
			Key: sh.key, Solve: solve, Identity: r.Take.ID, Callers: len(waiters),
			Sitekey: r.Share.Sitekey, Pageurl: r.Share.Pageurl,
		})
		if err != nil {
			if time.Since(answered) < claimsAway {
				waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return w.solve != "" })
			}
			s.tell(sh, waiters, outcome{err: err})
			s.rest(ctx, sh)
			continue
		}
		answered = time.Now()
		switch claim.State {
		case pool.ClaimShared:
			s.tell(sh, waiters, readVerdict(claim))
			solve = ""
		case pool.ClaimError:
			// Who came after the solve had ended may try anew.
			waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return w.solve != solve })
			s.tell(sh, waiters, readVerdict(claim))
			solve = ""
		case pool.ClaimSolving, pool.ClaimHeld:
			solve = claim.Solve
			for _, w := range waiters {
				w.solve = solve
			}
			if claim.State == pool.ClaimSolving {
				s.rest(ctx, sh)
			} else {
				s.hold(ctx, sh, claim)
			}
		}
	}
}

// rest waits until something happens to a claim, or it is time to ask.
func (s *Service) rest(ctx context.Context, sh *claimed) {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-sh.bell:
	}
}
