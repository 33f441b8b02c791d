package ondemand

import (
	"context"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy/worth"
)

// MostWaiting limits the pending callers of one guest over all replicas. It also limits the pending
// callers of one claim at one replica.
const MostWaiting = 500

// The sources of a token in addition to those of package pool.
const (
	FromSolve  pool.Source = "solve"  // the token was bought for this request
	FromShared pool.Source = "shared" // another request got the same token
)

// Request asks for one solve.
type Request struct {
	// Take describes the take; Take.Wait is the time-out of the request.
	Take pool.Request
	// Guest describes the purchase for an identity without a target; nil = the identity has a target.
	Guest *Guest
	// Share names the claim of requests that share a solve; nil = this request does not share a solve.
	Share *Share
}

// Share identifies the claim that equal requests share.
type Share struct {
	Key captcha.ID
	// Sitekey and Pageurl are for operators who read the table in PostgreSQL.
	Sitekey, Pageurl string
}

// Guest describes the purchase for a guest.
type Guest struct {
	Spec purchase.Spec // Spec.Depth is 0
	Use  pool.GuestUse
	// Policy and MaxWaste are the terms by which the provider is chosen; see purchase.Bid.
	Policy   worth.Policy
	MaxWaste float64
}

// SolveError reports a solve without a token.
type SolveError struct {
	// Refused reports that the provider rejects the parameters, or does not solve the type.
	Refused bool
	Reason  string
}

// Error returns "no token: " and the reason.
func (e *SolveError) Error() string { return "no token: " + e.Reason }

// BudgetError reports that a budget is used up.
type BudgetError struct {
	Reason     string
	RetryAfter time.Duration // time until the budget allows an order again
}

// Error returns the reason, which is a complete sentence.
func (e *BudgetError) Error() string { return e.Reason }

// OutageError reports that no provider accepts orders now.
type OutageError struct {
	Reason string
	Until  time.Time // when the daemon tries a provider again; zero = unknown
}

// Error returns "no provider can be asked: " followed by the reason.
func (e *OutageError) Error() string { return "no provider can be asked: " + e.Reason }

// Tokens is the stock of tokens; *pool.Tokens implements it.
type Tokens interface {
	Take(ctx context.Context, r pool.Request) (pool.Token, error)
	Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error)
	// TokenID returns the token id of an order. Each caller gets a different id for the same order.
	TokenID(ctx context.Context, order, caller string) (string, error)
	// FirstHolder reports whether the given holder is the first holder of a claim that hands out the
	// token t. If FirstHolder is called again with the same holder, it returns the same result.
	FirstHolder(ctx context.Context, id captcha.ID, t pool.Token, holder string) (bool, error)
}

// Guests is the list of all guests; *pool.Guests implements it.
type Guests interface {
	Use(ctx context.Context, id captcha.ID, u pool.GuestUse) error
	Retire(ctx context.Context, hasTarget func(captcha.ID) bool) (retired int, err error)
	// Count adds refused and replayed requests to the figures of guests. The method Tokens.Take does
	// not count these requests.
	Count(ctx context.Context, refused, replays int) error
}

// Buyer places orders; *purchase.Buyer implements it.
type Buyer interface {
	Admit(ctx context.Context, bid purchase.Bid) (*purchase.Slot, error)
	Buy(ctx context.Context, slot *purchase.Slot, spec purchase.Spec, ended func(purchase.Result)) error
	Providers(ctx context.Context, at time.Time) []purchase.Status
}

// Claims decides which replica solves for a key. Both *redisclaims.Claims and *pgclaims.Claims
// implement this interface. After Release or End, each replica calls Service.Wake with the key.
type Claims interface {
	Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error)
	// Hold renews the lease and records the identity from whose stock the holder takes. Its result
	// `mine` reports whether this replica still holds the claim. Its result `wanted` reports whether
	// any replica has called Enter within the last dedup.ClaimWanted.
	Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error)
	// Release ends the lease. The next replica that calls Enter continues the solve.
	Release(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error
	End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (ok bool, err error)
}

// Savings counts requests by outcome. It does not count requests that shared a token, because
// Claims.Enter counts them. Both claim stores implement Savings.
type Savings interface {
	Count(ctx context.Context, requests map[dedup.SavingsSource]int) error
}
