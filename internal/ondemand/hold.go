package ondemand

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

const (
	// holdEvery is the interval between two renewals of a claim's lease.
	holdEvery = dedup.ClaimLease * 3 / 10
	// endMargin is the time between the failure of a solve without a token and the end of its claim. In
	// this time the claim store can still record the failure.
	endMargin = time.Second
	// formerWait limits each wait for an order that a previous holder placed.
	formerWait = 10 * time.Second
)

var (
	errLost     = errors.New("ondemand: another replica holds the claim")
	errUnwanted = errors.New("ondemand: no caller waits for the solve any more")
)

// holding is a share whose claim this replica holds.
type holding struct {
	*share

	claim dedup.Claim
	stock atomic.Pointer[captcha.ID] // the identity from whose stock the holder takes
}

func (h *holding) identity() captcha.ID { return *h.stock.Load() }

// hold takes a token for a claim and ends the claim. It returns early if another replica takes over
// the claim, or if no caller waits any more.
func (ss *shares) hold(ctx context.Context, sh *share, claim dedup.Claim) {
	h := &holding{share: sh, claim: claim}
	h.stock.Store(&claim.Identity)
	waiters := ss.waitersOf(sh)
	if len(waiters) == 0 {
		ss.release(ctx, h)
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
		ss.release(ctx, h) // so that the next holder takes the token
	case errors.Is(err, redisdb.ErrDown):
		ss.release(ctx, h)
		ss.deliver(sh, ss.waitersOf(sh), outcome{err: err})
	case errors.Is(cause, errLost), errors.Is(err, errLost):
	default:
		if empty := (*pool.EmptyError)(nil); errors.As(err, &empty) && !empty.Full {
			err = &SolveError{Reason: fmt.Sprintf("no token came within %v", dedup.ClaimLongest)}
		}
		ss.fail(ctx, h, err)
	}
}

// keepHolding renews the lease until ctx ends. It cancels the solve if another replica holds the
// claim. It also cancels the solve if no caller waits for the solve at any replica.
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
		case !wanted && !ss.isWanted(h.share):
			cancel(errUnwanted)
			return
		}
		held = asked
	}
}

// isWanted reports whether a caller waits for the share at this replica.
func (ss *shares) isWanted(sh *share) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(sh.waiters) > 0
}

// solve takes a token for the claim. The Idempotency-Key contains the name of the solve, so all holders
// of the claim get the same token.
func (ss *shares) solve(ctx context.Context, h *holding, r Request) (pool.Token, error) {
	own := r.Take.ID
	r.Take.Caller, r.Take.Idempotency, r.Take.Wait = "", "claim\x00"+h.claim.Solve, max(0, h.claim.Left-endMargin)
	r.Take.Over = nil // Over ends the wait of one caller; the solve continues for the other callers
	if h.identity() != own {
		// The previous holder used another proxy, so it ordered for another identity.
		if token, err := ss.takeFormer(ctx, h.identity(), r); err == nil || ctx.Err() != nil {
			return token, err
		}
		h.stock.Store(&own)
		// Record the identity in the claim before the purchase, because this replica may die before it
		// renews its lease.
		if mine, _, err := ss.claims.Hold(ctx, h.key, h.claim.Fence, own); err == nil && !mine {
			return pool.Token{}, errLost
		}
	}
	return ss.take(ctx, r)
}

// takeFormer takes the token that an earlier holder ordered for an identity for which this holder
// cannot buy. It returns an error if the stock of that identity has neither tokens nor orders.
func (ss *shares) takeFormer(ctx context.Context, id captcha.ID, r Request) (pool.Token, error) {
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

// settle ends a claim with a token. The longest waiting caller gets the token as bought, and the other
// callers get the token as shared. If the claim store does not respond, settle gives the token only to
// the callers at this replica. If this replica has no caller left, settle releases the claim, and the
// first caller of the next holder gets the token as bought.
func (ss *shares) settle(ctx context.Context, h *holding, token pool.Token, r Request) {
	if len(ss.waitersOf(h.share)) == 0 {
		ss.release(ctx, h)
		return
	}
	ctx = context.WithoutCancel(ctx)
	lasts := min(token.TTL-r.Take.Margin, dedup.ClaimSolved)
	shared := dedup.Claim{State: dedup.ClaimShared, Value: encodeToken(token, lasts), Left: lasts}
	ended, err := ss.claims.End(ctx, h.key, h.claim.Fence, dedup.ClaimEnd{Value: shared.Value, Lasts: lasts})
	if err != nil {
		ss.log.Warn("shared solve stays at this replica: its end is not in the claim store", "order", token.Order, "err", err)
	}
	waiters := ss.waitersOf(h.share)
	if len(waiters) == 0 {
		return
	}
	first := outcome{token: token}
	first.token.ID = token.Order
	first.token.Source = ss.sourceOf(ctx, h, token, ended && err == nil)
	if first.token.Source == FromShared {
		first = readEnd(shared, waiters[0].r.Take.Margin)
	}
	ss.settleOne(h, waiters[0], first)
	if err == nil {
		return
	}
	for _, w := range waiters[1:] {
		ss.settleOne(h, w, readEnd(shared, w.r.Take.Margin))
	}
}

// settleOne gives one caller its outcome and counts the token, if there is one.
func (ss *shares) settleOne(h *holding, w *waiter, got outcome) {
	if got.err == nil {
		ss.counter.count(got.token.Source)
	}
	ss.deliver(h.share, []*waiter{w}, got)
}

// sourceOf returns the source of the first caller's token. The source is FromShared if another holder
// of the same solve hands the token out as bought. No other holder can hand the token out as bought
// if this holder itself took it and ended the claim.
func (ss *shares) sourceOf(ctx context.Context, h *holding, token pool.Token, ended bool) pool.Source {
	source := token.Source
	if source == pool.FromWait || source == pool.FromReplay {
		source = FromSolve
	}
	if ended && token.Source != pool.FromReplay {
		return source
	}
	mine, err := ss.tokens.FirstHolder(ctx, h.identity(), token, strconv.FormatInt(h.claim.Fence, 10))
	if err != nil {
		ss.log.Warn("shared token counts as shared: its first hand-out is not recorded", "order", token.Order, "err", err)
	}
	if err != nil || !mine {
		return FromShared
	}
	return source
}

// fail ends a claim with an error. It returns this error to the callers that came before the end.
func (ss *shares) fail(ctx context.Context, h *holding, cause error) {
	waiters := ss.waitersOf(h.share)
	_, err := ss.claims.End(context.WithoutCancel(ctx), h.key, h.claim.Fence, dedup.ClaimEnd{Value: encodeError(cause), Failed: true})
	if err != nil {
		ss.log.Debug("failure of a shared solve not recorded in the claim store", "identity", h.identity(), "err", err)
	}
	ss.deliver(h.share, waiters, outcome{err: cause})
}

// release ends this replica's lease. The next replica that calls Enter becomes the holder.
func (ss *shares) release(ctx context.Context, h *holding) {
	if err := ss.claims.Release(context.WithoutCancel(ctx), h.key, h.claim.Fence, h.identity()); err != nil {
		ss.log.Debug("claim not released; its lease expires by itself", "identity", h.identity(), "err", err)
	}
}
