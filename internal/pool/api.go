package pool

import (
	"errors"
	"time"

	"poold/internal/captcha"
)

var (
	// ErrDown: Redis does not answer. Nothing was handed out, nothing is lost.
	ErrDown = errors.New("pool: redis does not answer")
	// ErrConflict: the Idempotency-Key was used with another min_ttl.
	ErrConflict = errors.New("pool: idempotency key used for another request")
	// ErrClosed: the store is stopping; waiters were sent away.
	ErrClosed = errors.New("pool: closing")
)

// EmptyError tells a caller that there is no token for it.
type EmptyError struct {
	RetryAfter time.Duration // when one under way should have landed for this caller; 0 = unknown
	Paused     bool          // buying is paused for this identity
	Full       bool          // too many callers are waiting already
}

func (e *EmptyError) Error() string { return "pool: empty" }

// RateError tells a caller that the target's rate is used up.
type RateError struct{ RetryAfter time.Duration }

func (e *RateError) Error() string { return "pool: rate limited" }

// Source says how a caller came by its token.
type Source string

// The sources; README, API.
const (
	FromPool   Source = "pool"   // was waiting
	FromWait   Source = "wait"   // landed while the caller waited
	FromReplay Source = "replay" // repeated by Idempotency-Key
)

// Token is one that was handed out. Times are on Redis' clock.
type Token struct {
	ID        string
	Value     string
	Provider  string
	UserAgent string
	Born      time.Time     // earliest moment at which it can have been solved
	Dies      time.Time     // true end of its life, margin not taken off
	TTL       time.Duration // Dies less the moment of the hand-out
	Source    Source

	// For Return:
	identity captcha.ID
	margin   time.Duration
	element  string // as it stands in Redis
	handout  string // names this hand-out, so that it is returned at most once; "" = never returned
}

// Request asks for one token.
type Request struct {
	ID     captcha.ID
	Margin time.Duration
	MinTTL time.Duration // wanted life left (of the true life); 0 = whatever outlives the margin
	Wait   time.Duration // 0 = answer at once
	// Idempotency scopes a repeatable take: caller's name and its key. "" = none.
	Idempotency string
	// MaxWaiting: beyond so many tickets a waiting request is refused.
	MaxWaiting int
	// Rate tokens of this identity at most within any RatePer, over all
	// replicas; 0 = no limit.
	Rate    int
	RatePer time.Duration
}

// Order describes one purchase to be placed beside the stock.
type Order struct {
	ID       string // unique; the same one may be placed again and counts once
	Identity captcha.ID
	Provider string
	Depth    int
	Margin   time.Duration
	Lead     time.Duration // fresh tokens that do not outlive it do not count
	TTL      time.Duration // after this it no longer counts, settled or not
}

// Landing is a solved order on its way into the stock.
type Landing struct {
	Order     string
	Identity  captcha.ID
	Provider  string
	Value     string
	UserAgent string
	// SincePlaced is the time from Place's answer to the earliest moment at which
	// it can have been solved. Redis knows when it carried out Place, which was
	// before its answer, so the birth computed from it is never too late, however
	// long the landing itself takes.
	SincePlaced time.Duration
	Lifetime    time.Duration
	Lead        time.Duration // submit to token, to be learned from
}

// Stock is what one identity holds at one moment.
type Stock struct {
	Fresh      int           // tokens that outlive the margin
	Outliving  int           // those of them that outlive margin + lead
	Orders     int           // under way
	Waiting    int           // live tickets
	NextExpiry time.Duration // until the first fresh one meets its margin; <0 = none is fresh
	NextLook   time.Duration // until the first of the outliving stops outliving; <0 = there is none
	Paused     bool          // by Pause, not by the file

	// Look and Survey alone tell these.
	OrderAges []time.Duration // oldest first
	Leads     []time.Duration // the last 48 lead times, newest first
	Figures   Figures
}

// Figures count what happened to one identity since it was first seen, over
// all replicas.
type Figures struct {
	Requests int64 // that asked the stock: hits, waited, misses and those who hung up waiting
	Hits     int64 // got a token at once
	Waited   int64 // got one that landed while they waited
	Misses   int64 // got none
	Replays  int64 // repeated by Idempotency-Key; not among Requests
	Returned int64 // hand-outs taken back, because the caller had hung up
	Solved   int64 // tokens that landed
	Expired  int64 // of those, died unused
	Failed   int64 // orders that ended without a token
	Lost     int64 // orders of which nobody knows how they ended
}
