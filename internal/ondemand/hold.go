package ondemand

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

const (
	// holdEvery is how often the lease of a claim is renewed.
	holdEvery = dedup.ClaimLease * 3 / 10
	// formerWait is for how long at a time a new holder waits for what the former one
	// had bought for an identity that is not its own.
	formerWait = 10 * time.Second
)

var (
	errLost     = errors.New("ondemand: the claim is another replica's")
	errUnwanted = errors.New("ondemand: nobody waits for the solve any more")
)

// holding is a claim while this replica holds it.
type holding struct {
	*claimed

	claim dedup.Claim
	mu    sync.Mutex
	from  captcha.ID // whose stock it takes from
}

func (h *holding) takesFrom(id captcha.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = id
}

func (h *holding) identity() captcha.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.from
}

// hold solves for a claim, and ends it. It returns early where the claim has become
// another replica's, or nobody waits any more.
func (ss *shares) hold(ctx context.Context, sh *claimed, claim dedup.Claim) {
	h := &holding{claimed: sh, claim: claim, from: claim.Identity}
	waiters := ss.waitersOf(sh)
	if len(waiters) == 0 {
		ss.letGo(ctx, h)
		return
	}
	solving, cancel := context.WithCancelCause(ctx)
	var leases sync.WaitGroup
	leases.Go(func() { ss.keepHolding(solving, h, cancel) })
	token, err := ss.solve(solving, h, waiters[0].r)
	cause := context.Cause(solving)
	cancel(nil)
	leases.Wait()
	switch {
	case err == nil:
		ss.settle(ctx, h, token, waiters[0].r)
	case errors.Is(cause, errUnwanted), ctx.Err() != nil, errors.Is(err, pool.ErrClosed):
		ss.letGo(ctx, h) // whoever comes next takes what has landed
	case errors.Is(err, redisdb.ErrDown):
		ss.letGo(ctx, h)
		ss.tell(sh, ss.waitersOf(sh), outcome{err: err})
	case errors.Is(cause, errLost), errors.Is(err, errLost):
	default:
		if empty := (*pool.EmptyError)(nil); errors.As(err, &empty) && !empty.Full {
			err = &SolveError{Reason: fmt.Sprintf("no token came within %v", dedup.ClaimLongest)}
		}
		ss.fail(ctx, h, err)
	}
}

// keepHolding renews the lease until ctx ends, and cancels the solve where the claim is
// lost or nobody waits for it.
func (ss *shares) keepHolding(ctx context.Context, h *holding, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	held := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked := time.Now()
		mine, wanted, err := ss.claims.Hold(ctx, h.key, h.claim.Fence, h.identity())
		switch {
		case err != nil && time.Since(held) < dedup.ClaimLease:
			continue
		case err != nil, !mine:
			cancel(errLost)
			return
		case !wanted && !ss.isWanted(h.claimed):
			cancel(errUnwanted)
			return
		}
		held = asked
	}
}

func (ss *shares) isWanted(sh *claimed) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(sh.waiters) > 0
}

// solve takes a token for the claim. The Idempotency-Key is named by the solve, so that
// each of its holders gets the same one.
func (ss *shares) solve(ctx context.Context, h *holding, r Request) (pool.Token, error) {
	own := r.Take.ID
	r.Take.Caller, r.Take.Idempotency, r.Take.Wait = "", "claim\x00"+h.claim.Solve, h.claim.Left
	r.Take.Over = nil // it ends that caller's wait, and not the solve of the others
	if h.identity() != own {
		// It was another proxy's.
		if token, err := ss.former(ctx, h.identity(), r); err == nil || ctx.Err() != nil {
			return token, err
		}
		h.takesFrom(own)
		// Noted before anything is bought: this replica may die before it renews its lease.
		if mine, _, err := ss.claims.Hold(ctx, h.key, h.claim.Fence, own); err == nil && !mine {
			return pool.Token{}, errLost
		}
	}
	return ss.take(ctx, r)
}

// former takes what an earlier holder of the claim had bought for an identity that this
// one cannot buy for; it fails where nothing is left of that.
func (ss *shares) former(ctx context.Context, id captcha.ID, r Request) (pool.Token, error) {
	r.Take.ID, r.Take.Wait = id, time.Millisecond
	for {
		token, err := ss.tokens.Take(ctx, r.Take)
		if err == nil || ctx.Err() != nil {
			return token, err
		}
		stock, err := ss.tokens.Look(ctx, id, r.Take.Margin, 0)
		if err != nil || stock.Fresh+stock.Orders == 0 {
			return pool.Token{}, errors.Join(err, errLost)
		}
		r.Take.Wait = formerWait
	}
}

// settle ends a claim with a token: the caller that has waited longest gets it as its
// own, and the others share it. If the claims do not answer, settle hands it to all callers
// that wait at this replica. If none waits here any more, it leaves the claim to the next
// holder, whose first caller gets the token as its own.
func (ss *shares) settle(ctx context.Context, h *holding, token pool.Token, r Request) {
	if len(ss.waitersOf(h.claimed)) == 0 {
		ss.letGo(ctx, h)
		return
	}
	ctx = context.WithoutCancel(ctx)
	lasts := min(token.TTL-r.Take.Margin, dedup.ClaimSolved)
	shared := dedup.Claim{State: dedup.ClaimShared, Value: encodeToken(token, lasts), Left: lasts}
	ended, err := ss.claims.End(ctx, h.key, h.claim.Fence, dedup.ClaimEnd{Value: shared.Value, Lasts: lasts})
	if err != nil {
		ss.log.Warn("a shared solve cannot be shared with other replicas", "err", err)
	}
	waiters := ss.waitersOf(h.claimed)
	if len(waiters) == 0 {
		return
	}
	first := outcome{token: token}
	first.token.ID = token.Order
	first.token.Source = ss.sourceOf(ctx, h, token, ended && err == nil)
	if first.token.Source == FromShared {
		first = readVerdict(shared, waiters[0].r.Take.Margin)
	}
	ss.settleOne(h, waiters[0], first)
	if err == nil {
		return
	}
	for _, w := range waiters[1:] {
		ss.settleOne(h, w, readVerdict(shared, w.r.Take.Margin))
	}
}

// settleOne answers and counts one caller.
func (ss *shares) settleOne(h *holding, w *waiter, got outcome) {
	if got.err == nil {
		ss.count(got.token.Source)
	}
	ss.tell(h.claimed, []*waiter{w}, got)
}

// sourceOf returns how the first caller came by the token of a claim. It was bought for that
// caller, unless another holder of the same solve hands it out so. There may be another holder
// if an earlier one took the token, or if this one did not end the claim.
func (ss *shares) sourceOf(ctx context.Context, h *holding, token pool.Token, ended bool) pool.Source {
	source := token.Source
	if source == pool.FromWait || source == pool.FromReplay {
		source = FromSolve
	}
	if ended && token.Source != pool.FromReplay {
		return source
	}
	mine, err := ss.tokens.First(ctx, h.identity(), token, strconv.FormatInt(h.claim.Fence, 10))
	if err != nil {
		ss.log.Warn("a shared token counts as shared, because its first hand-out cannot be noted", "err", err)
	}
	if err != nil || !mine {
		return FromShared
	}
	return source
}

// fail ends a claim without a token. Who came before its end is told.
func (ss *shares) fail(ctx context.Context, h *holding, cause error) {
	waiters := ss.waitersOf(h.claimed)
	_, err := ss.claims.End(context.WithoutCancel(ctx), h.key, h.claim.Fence, dedup.ClaimEnd{Value: encodeError(cause), Failed: true})
	if err != nil {
		ss.log.Debug("the end of a shared solve was not noted", "err", err)
	}
	ss.tell(h.claimed, waiters, outcome{err: cause})
}

// letGo leaves a claim to who asks next.
func (ss *shares) letGo(ctx context.Context, h *holding) {
	if err := ss.claims.LetGo(context.WithoutCancel(ctx), h.key, h.claim.Fence, h.identity()); err != nil {
		ss.log.Debug("a claim was not let go", "err", err)
	}
}
