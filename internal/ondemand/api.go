package ondemand

import (
	"context"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// MostWaiting is how many callers may wait for one guest, over all replicas, and for one
// claim at one.
const MostWaiting = 500

// The sources of a token that are not the stock's own.
const (
	FromSolve  pool.Source = "solve"  // was bought for this request
	FromShared pool.Source = "shared" // is another request's too
)

// Request asks for one solve.
type Request struct {
	// Take is how the token is taken; its Wait is the time-out.
	Take pool.Request
	// Guest is what is bought where no target has the identity; nil = a target has it.
	Guest *Guest
	// Share is the claim by which equal requests share a solve; nil = the solve is this
	// request's own.
	Share *Share
}

// Share names what equal requests share.
type Share struct {
	Key captcha.ID
	// Sitekey and Pageurl are for people who look at the table in PostgreSQL.
	Sitekey, Pageurl string
}

// Guest says on which terms a guest is bought.
type Guest struct {
	Spec purchase.Spec // its Depth is 0
	Use  pool.GuestUse
}

// SolveError says that a solve brought no token.
type SolveError struct {
	// Refused: the provider finds fault with the parameters, or does not do the type.
	Refused bool
	Reason  string
}

func (e *SolveError) Error() string { return "no token: " + e.Reason }

// BudgetError says that a budget is used up.
type BudgetError struct {
	Reason     string
	RetryAfter time.Duration // until there is room again
}

func (e *BudgetError) Error() string { return e.Reason }

// OutageError says that no provider can be asked.
type OutageError struct {
	Reason string
	Until  time.Time // then one may be asked again; zero = unknown
}

func (e *OutageError) Error() string { return "no provider can be asked: " + e.Reason }

// Tokens is the stock as a caller sees it; *pool.Tokens implements it.
type Tokens interface {
	Take(ctx context.Context, r pool.Request) (pool.Token, error)
	Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error)
	// Name is a token's id for one caller.
	Name(ctx context.Context, order, caller string) (string, error)
	// First reports whether holder is the first holder of a claim to hand out a token.
	First(ctx context.Context, id captcha.ID, t pool.Token, holder string) (bool, error)
}

// Guests is the list of all guests; *pool.Guests implements it.
type Guests interface {
	Use(ctx context.Context, id captcha.ID, u pool.GuestUse) error
	Retire(ctx context.Context, hasTarget func(captcha.ID) bool) (retired int, err error)
	// Count adds requests that the stock does not count.
	Count(ctx context.Context, refused, replays int) error
}

// Buyer is what is needed of a *purchase.Buyer.
type Buyer interface {
	Admit(ctx context.Context, bid purchase.Bid) (*purchase.Slot, error)
	Buy(ctx context.Context, slot *purchase.Slot, spec purchase.Spec, ended func(purchase.Result)) error
	Providers(ctx context.Context, at time.Time) []purchase.Status
}

// Claims says who solves for a key, over all replicas; *redisclaims.Claims and *pgclaims.Claims
// implement it. A call that wakes those who wait makes Service.Kick be called with the key
// at each replica.
type Claims interface {
	Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error)
	// Hold renews the lease and says whose stock the holder takes from. wanted: other
	// replicas wait.
	Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error)
	// LetGo ends the lease; who asks next goes on with the same solve.
	LetGo(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error
	End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (ok bool, err error)
}

// Savings counts the requests by how they ended; each implementation of Claims is one of
// Savings. Claims.Enter counts the requests that shared a token.
type Savings interface {
	Count(ctx context.Context, requests map[dedup.SavingsSource]int) error
}
