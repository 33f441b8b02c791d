package solve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

const (
	// mostShares limits the shared solves at one replica.
	mostShares = 4096
	// enterEvery is the longest interval between two calls of Claims.Enter for a claim.
	enterEvery = time.Second
	// claimsAway is how long callers keep waiting while the claim store does not answer. New ones get the
	// error at once.
	claimsAway = 10 * time.Second
	// holdEvery is the interval between two renewals of a claim's lease.
	holdEvery = claims.Lease * 3 / 10
	// endMargin is how long before the end of its claim a solve fails, so that the store still records it.
	endMargin = time.Second
)

// FromShared is the source of a token that another request got, too.
const FromShared pool.Source = "shared"

// Share names the claim of requests that share a solve.
type Share struct {
	Key              captcha.ID
	Sitekey, Pageurl string // for operators who read the table in PostgreSQL
}

// share is a claim that callers of this replica wait for. The mu of shares guards waiters.
type share struct {
	key     captcha.ID
	bell    chan struct{} // the claim has changed or a caller came; capacity 1
	waiters []*waiter     // in the order of arrival
}

// waiter is a caller that shares a solve.
type waiter struct {
	r    Request
	came time.Time
	out  chan outcome // capacity 1
	// solve is the solve that the caller waits for; "" = the store has not been asked yet. The goroutine of
	// the share owns it.
	solve string
}

// outcome is what a waiter gets.
type outcome struct {
	token pool.Token
	late  bool // the token is of a solve that had ended before the request
	err   error
}

// shares are the shared solves of this replica. A claim is held by one replica, which takes a token with a
// call that is named after the solve: the next holder of the same solve repeats the call and gets the same
// token. The others wait for the end of the claim.
type shares struct {
	claims  *claims.Claims
	take    func(ctx context.Context, r Request) (pool.Token, error)
	log     *slog.Logger
	stopped chan struct{} // closed when run starts no more
	begun   chan *share

	mu sync.Mutex
	of map[captcha.ID]*share
}

// wake tells of an event of a claim, such as the end of its solve.
func (ss *shares) wake(key captcha.ID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sh := ss.of[key]; sh != nil {
		ring(sh.bell)
	}
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// solve waits for the solve that a request shares.
func (ss *shares) solve(ctx context.Context, r Request) outcome {
	w := &waiter{r: r, came: time.Now(), out: make(chan outcome, 1)}
	sh, err := ss.join(w)
	if err != nil {
		return outcome{err: err}
	}
	defer ss.remove(sh, w)
	timer := time.NewTimer(r.Call.Wait)
	defer timer.Stop()
	select {
	case got := <-w.out:
		return got
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	case <-timer.C:
		return outcome{err: &pool.EmptyError{}}
	case <-ss.stopped:
		return outcome{err: ErrStopping}
	}
}

// join adds a caller to the share of its key, and begins one if the key has none.
func (ss *shares) join(w *waiter) (*share, error) {
	ss.mu.Lock()
	sh := ss.of[w.r.Share.Key]
	isNew := sh == nil
	switch {
	case isNew && len(ss.of) >= mostShares, !isNew && len(sh.waiters) >= MostWaiting:
		ss.mu.Unlock()
		return nil, &pool.EmptyError{Full: true}
	case isNew:
		sh = &share{key: w.r.Share.Key, bell: make(chan struct{}, 1)}
		ss.of[sh.key] = sh
	}
	sh.waiters = append(sh.waiters, w)
	ss.mu.Unlock()
	if !isNew {
		ring(sh.bell)
		return sh, nil
	}
	select {
	case ss.begun <- sh:
		return sh, nil
	case <-ss.stopped:
		ss.close(sh)
		return sh, nil
	}
}

func (ss *shares) remove(sh *share, gone ...*waiter) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh.waiters = slices.DeleteFunc(sh.waiters, func(w *waiter) bool { return slices.Contains(gone, w) })
}

// run carries shares until ctx ends, and returns when all have ended.
func (ss *shares) run(ctx context.Context) {
	var all errgroup.Group
	all.SetLimit(mostShares)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case sh := <-ss.begun:
			all.Go(func() error {
				_ = panics.Contain(ss.log, "panic while serving a shared solve", func() { ss.carry(ctx, sh) })
				ss.close(sh)
				return nil
			})
		}
	}
	close(ss.stopped)
	_ = all.Wait()
}

// close ends a share: waiters that are left get ErrStopping.
func (ss *shares) close(sh *share) {
	ss.deliver(sh, ss.waitersOf(sh), outcome{err: ErrStopping})
	_ = ss.waitersOf(sh) // removes the share
}

// waitersOf returns the waiters of a share, and removes a share that has none.
func (ss *shares) waitersOf(sh *share) []*waiter {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(sh.waiters) == 0 && ss.of[sh.key] == sh {
		delete(ss.of, sh.key)
	}
	return slices.Clone(sh.waiters)
}

func (ss *shares) deliver(sh *share, waiters []*waiter, got outcome) {
	ss.remove(sh, waiters...)
	for _, w := range waiters {
		w.out <- got
	}
}

// carry enters the claim of a share while callers of this replica wait. Whoever holds the claim takes a token.
func (ss *shares) carry(ctx context.Context, sh *share) {
	solve, answered := "", time.Time{} // answered is the time of the claim store's last answer
	for ctx.Err() == nil {
		waiters := ss.waitersOf(sh)
		if len(waiters) == 0 {
			return
		}
		r := waiters[0].r
		claim, err := ss.claims.Enter(ctx, claims.Entry{
			Key: sh.key, Solve: solve, Sitekey: r.Share.Sitekey, Pageurl: r.Share.Pageurl,
		})
		if err != nil {
			if time.Since(answered) < claimsAway {
				waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return !w.came.After(answered) })
			}
			ss.deliver(sh, waiters, outcome{err: err})
			ss.pause(ctx, sh)
			continue
		}
		answered = time.Now()
		switch claim.State {
		case claims.Shared:
			for _, w := range waiters {
				got := readEnd(claim, w.r.Call.Margin)
				got.late = solve == ""
				ss.deliver(sh, []*waiter{w}, got)
			}
			solve = ""
		case claims.Failed: // callers that came after the end wait for the next solve
			waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return w.solve != solve })
			ss.deliver(sh, waiters, readEnd(claim, r.Call.Margin))
			solve = ""
		case claims.Solving, claims.Held:
			solve = claim.Solve
			for _, w := range waiters {
				w.solve = solve
			}
			if claim.State == claims.Solving {
				ss.pause(ctx, sh)
			} else {
				ss.hold(ctx, sh, claim)
				answered = time.Now()
			}
		}
	}
}

// pause waits for an event of the claim, for at most enterEvery.
func (ss *shares) pause(ctx context.Context, sh *share) {
	timer := time.NewTimer(enterEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-sh.bell:
	}
}

var (
	errLost     = errors.New("solve: another replica holds the claim")
	errUnwanted = errors.New("solve: no caller of this replica waits for the solve any more")
)

// hold takes a token for a claim and ends the claim. It returns early if another replica takes the claim over, or
// if no caller of this replica waits any more: then another one may hold the claim.
func (ss *shares) hold(ctx context.Context, sh *share, claim claims.Claim) {
	waiters := ss.waitersOf(sh)
	if len(waiters) == 0 {
		ss.release(ctx, sh, claim)
		return
	}
	solving, cancel := context.WithCancelCause(ctx)
	var leases sync.WaitGroup
	leases.Go(func() { ss.keepHolding(solving, sh, claim, cancel) })
	token, err := ss.take(solving, callFor(claim, waiters[0].r))
	cause := context.Cause(solving)
	cancel(nil)
	leases.Wait()
	switch {
	case err == nil:
		ss.settle(ctx, sh, claim, token, waiters[0].r)
	case errors.Is(cause, errUnwanted), ctx.Err() != nil, errors.Is(err, pool.ErrClosed), errors.Is(err, ErrStopping):
		ss.release(ctx, sh, claim) // so that the next holder takes the token
	case errors.Is(err, redisdb.ErrDown):
		ss.release(ctx, sh, claim)
		ss.deliver(sh, ss.waitersOf(sh), outcome{err: err})
	case errors.Is(cause, errLost):
	default:
		if empty := (*pool.EmptyError)(nil); errors.As(err, &empty) && !empty.Full {
			err = &SolveError{Reason: fmt.Sprintf("no token came within %v", claims.Longest)}
		}
		waiters := ss.waitersOf(sh)
		end := claims.End{Value: encodeError(err), Failed: true}
		if _, lost := ss.claims.End(context.WithoutCancel(ctx), sh.key, claim.Fence, end); lost != nil {
			ss.log.Debug("failure of a shared solve not recorded in the claim store", "identity", sh.key, "err", lost)
		}
		ss.deliver(sh, waiters, outcome{err: err})
	}
}

// keepHolding renews the lease until ctx ends. It cancels the solve if another replica holds the claim, or if no
// caller of this replica waits.
func (ss *shares) keepHolding(ctx context.Context, sh *share, claim claims.Claim, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	held := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if len(ss.waitersOf(sh)) == 0 {
			cancel(errUnwanted)
			return
		}
		asked := time.Now()
		mine, err := ss.claims.Hold(ctx, sh.key, claim.Fence)
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

// callFor returns the request with the call that all holders of a claim share.
func callFor(claim claims.Claim, r Request) Request {
	call := *r.Call
	call.Name, call.Fingerprint, call.Nonce = hash("claim", claim.Solve), "claim", strconv.FormatInt(claim.Fence, 10)
	call.Wait, call.Row = max(0, claim.Left-endMargin), "" // each caller gets a row of its own with its answer
	r.Call, r.Share, r.Out = &call, nil, nil               // Out ends the wait of one caller; the solve goes on for the others
	return r
}

// settle ends a claim with a token. The caller that waits longest gets it as bought, the others as shared. If the
// claim store does not answer, only callers of this replica get the token. Without a caller here, the callers of the next
// holder get it as shared.
func (ss *shares) settle(ctx context.Context, sh *share, claim claims.Claim, token pool.Token, r Request) {
	if len(ss.waitersOf(sh)) == 0 {
		ss.release(ctx, sh, claim)
		return
	}
	ctx = context.WithoutCancel(ctx)
	lasts := min(token.TTL-r.Call.Margin, claims.SharedFor)
	shared := claims.Claim{State: claims.Shared, Value: encodeToken(token, lasts), Left: lasts}
	_, err := ss.claims.End(ctx, sh.key, claim.Fence, claims.End{Value: shared.Value, Lasts: lasts})
	if err != nil {
		ss.log.Warn("shared solve stays at this replica: its end is not in the claim store", "order", token.Order, "err", err)
	}
	waiters := ss.waitersOf(sh)
	if len(waiters) == 0 {
		return
	}
	first := outcome{token: token}
	switch token.Source {
	case pool.FromReplay: // an earlier holder took it
		first = readEnd(shared, waiters[0].r.Call.Margin)
	case pool.FromWait:
		first.token.Source = pool.FromSolve
	}
	ss.deliver(sh, waiters[:1], first)
	if err == nil {
		return // the others read the end of the claim
	}
	for _, w := range waiters[1:] {
		ss.deliver(sh, []*waiter{w}, readEnd(shared, w.r.Call.Margin))
	}
}

// release ends this replica's lease: the next replica that enters becomes the holder.
func (ss *shares) release(ctx context.Context, sh *share, claim claims.Claim) {
	if err := ss.claims.Release(context.WithoutCancel(ctx), sh.key, claim.Fence); err != nil {
		ss.log.Debug("claim not released; its lease expires by itself", "identity", sh.key, "err", err)
	}
}
