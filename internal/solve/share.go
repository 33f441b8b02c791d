package solve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

const (
	// enterEvery is the longest interval at which a waiting replica calls Claims.Enter for a claim.
	enterEvery = time.Second
	// claimsAway is how long waiting callers continue to wait while the claim store does not answer. New callers get the
	// error at once.
	claimsAway = 10 * time.Second
	// holdEvery is the interval between two renewals of a claim's lease.
	holdEvery = claims.Lease * 3 / 10
	// endMargin is how long before the end of its claim a solve gives up, so that the claim store can still record the
	// failure.
	endMargin = time.Second
)

// FromShared is the source of a token that the solve of another request brought.
const FromShared pool.Source = "shared"

// Share names the claim of requests that share a solve. Its field Solve is empty.
type Share = claims.Entry

// share is a claim that callers of this replica wait for. Each caller enters the claim when it arrives. Afterwards one
// caller at a time enters it on behalf of all. The mu of Solver guards the fields.
type share struct {
	callers  int
	changed  chan struct{} // closed and replaced when an end is known
	next     time.Time     // when a caller enters the claim again
	answered time.Time     // the claim store's last answer
	ended    claims.Claim  // the last end that is known here
}

// outcome is the answer to a caller.
type outcome struct {
	token pool.Token
	ended bool // the token is of a solve that had ended before the request
	err   error
}

// share gets the token of a shared solve. One caller holds the claim and takes a token with a call that is named after
// the solve. If another caller becomes the holder, it repeats this call and gets the same token. All other callers wait
// for the end of the claim.
func (s *Solver) share(ctx context.Context, r Request) (got outcome) {
	sh := s.join(r.Share.Key)
	if sh == nil {
		return outcome{err: &pool.EmptyError{Full: true}}
	}
	defer s.leave(r.Share.Key, sh)
	if err := s.Pool.Affords(ctx, r.Call); err != nil { // alone: the end of the solve concerns the others, too
		return outcome{err: err}
	}
	limited, cancel := context.WithTimeout(ctx, r.Call.Wait)
	defer cancel()
	got = s.follow(limited, sh, r)
	if got.err != nil && limited.Err() != nil && ctx.Err() == nil {
		got.err = &pool.EmptyError{}
	}
	return got
}

// join adds a caller to the share of a key. It returns nil if the share has too many callers.
func (s *Solver) join(key captcha.ID) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shares[key]
	if sh == nil {
		sh = &share{changed: make(chan struct{})}
		s.shares[key] = sh
	}
	if sh.callers == MostWaiting {
		return nil
	}
	sh.callers++
	return sh
}

func (s *Solver) leave(key captcha.ID, sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.callers--; sh.callers == 0 {
		delete(s.shares, key)
	}
}

// follow enters the claim of a share until its solve ends.
func (s *Solver) follow(ctx context.Context, sh *share, r Request) outcome {
	solve := "" // the solve that this caller waits for; "" = the store has not been asked yet
	for {
		changed, ended, asks := s.state(sh, solve == "")
		if solve != "" && ended.Solve == solve {
			return readEnd(ended, r.Call.Margin)
		}
		if asks {
			claim, err := s.enter(ctx, sh, r, solve)
			switch {
			case err != nil:
				return outcome{err: err}
			case claim.State == claims.Shared, claim.State == claims.Failed:
				got := readEnd(claim, r.Call.Margin)
				got.ended = solve == ""
				return got
			case claim.State == claims.Held:
				solve = claim.Solve
				if got, mine := s.hold(ctx, sh, r, claim); mine {
					return got
				}
				continue
			case claim.State == claims.Solving:
				solve = claim.Solve
			}
		}
		select {
		case <-changed:
		case <-time.After(enterEvery):
		case <-ctx.Done():
			return outcome{err: ctx.Err()}
		case <-s.stopped:
			return outcome{err: pool.ErrClosed}
		}
	}
}

// state returns the state of a share, and whether the caller should enter the claim now. A new caller always enters the
// claim.
func (s *Solver) state(sh *share, isNew bool) (changed <-chan struct{}, ended claims.Claim, asks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	isDue := !now.Before(sh.next)
	if isDue && !isNew {
		sh.next = now.Add(enterEvery)
	}
	return sh.changed, sh.ended, isDue || isNew
}

// enter enters the claim of a share. If the claim store does not answer for a while, the returned claim has no state.
func (s *Solver) enter(ctx context.Context, sh *share, r Request, solve string) (claims.Claim, error) {
	// The call does not end with the caller's context: a caller that hangs up now could leave the claim without a holder.
	entry := *r.Share
	entry.Solve = solve
	claim, err := s.Claims.Enter(context.WithoutCancel(ctx), entry)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		sh.answered = time.Now()
	case solve != "" && time.Since(sh.answered) < claimsAway:
		return claims.Claim{}, nil
	}
	if claim.State == claims.Shared || claim.State == claims.Failed {
		sh.end(claim)
	}
	return claim, err
}

// end passes the end of the solve to all callers of the share.
func (sh *share) end(claim claims.Claim) {
	if sh.ended.Solve != claim.Solve {
		close(sh.changed)
		sh.ended, sh.changed, sh.next = claim, make(chan struct{}), time.Time{}
	}
}

var errLost = errors.New("solve: another replica holds the claim")

// hold takes a token for a claim and ends the claim. It returns false if another caller has taken the claim over.
func (s *Solver) hold(ctx context.Context, sh *share, r Request, claim claims.Claim) (got outcome, mine bool) {
	solving, cancel := context.WithCancelCause(ctx)
	var leases sync.WaitGroup
	leases.Go(func() { s.keepHolding(solving, r.Share.Key, claim.Fence, cancel) })
	token, err := s.Take(solving, callFor(claim, r))
	cause := context.Cause(solving)
	cancel(nil)
	leases.Wait()
	lasting := context.WithoutCancel(ctx)
	var end claims.End
	switch {
	case err == nil:
		end.Lasts = min(token.TTL-r.Call.Margin, claims.SharedFor)
	case errors.Is(cause, errLost):
		s.mu.Lock()
		defer s.mu.Unlock()
		sh.answered = time.Now()
		return outcome{}, false
	case errors.Is(cause, pool.ErrClosed):
		err = cause
		fallthrough
	case ctx.Err() != nil, errors.Is(err, pool.ErrClosed), errors.Is(err, redisdb.ErrDown):
		// The next holder of the claim takes the token. If Release fails, the lease expires by itself.
		_ = s.Claims.Release(lasting, r.Share.Key, claim.Fence)
		return outcome{err: err}, true
	default:
		if empty := (*pool.EmptyError)(nil); errors.As(err, &empty) && !empty.Full {
			err = &pool.FailedError{Reason: fmt.Sprintf("no token came within %v", claims.Longest)}
		}
		end.Failed = true
	}
	end.Value = encodeEnd(token, end.Lasts, err)
	if _, lost := s.Claims.End(lasting, r.Share.Key, claim.Fence, end); lost != nil {
		s.Log.Warn("shared solve stays at this replica: its end is not in the claim store", "order", token.Order, "err", lost)
	}
	claim.Value, claim.Left = end.Value, end.Lasts
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.end(claim)
	if token.Source == pool.FromReplay { // an earlier holder took it
		return readEnd(claim, r.Call.Margin), true
	}
	return outcome{token: token, err: err}, true
}

// keepHolding renews the lease until ctx ends. It cancels the solve if another replica holds the claim.
func (s *Solver) keepHolding(ctx context.Context, key captcha.ID, fence int64, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	held := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stopped:
			cancel(pool.ErrClosed)
			return
		case <-ticker.C:
		}
		asked := time.Now()
		mine, err := s.Claims.Hold(ctx, key, fence)
		switch {
		case err != nil && time.Since(held) < claims.Lease:
			continue
		case err != nil, !mine:
			cancel(errLost)
			return
		}
		held = asked
	}
}

// callFor returns the request with a call that is named after the claim's solve. All replicas that hold the claim one
// after the other use this call, so they get the same token.
func callFor(claim claims.Claim, r Request) Request {
	call := *r.Call
	call.Name, call.Fingerprint, call.Nonce = hash("claim", claim.Solve), "claim", strconv.FormatInt(claim.Fence, 10)
	call.Budget = pool.Budget{Scope: call.Budget.Scope}    // it pays in any case
	call.Wait, call.Row = max(0, claim.Left-endMargin), "" // each caller gets its row with its answer
	// Out ends the wait of one caller; the solve goes on for the others
	r.Call, r.Share, r.Out = &call, nil, nil
	if !claim.First {
		r.Rate = pool.Rate{} // the first holder was admitted
	}
	return r
}
