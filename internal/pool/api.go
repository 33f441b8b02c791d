package pool

import (
	"errors"
	"time"

	"poold/internal/captcha"
)

// The errors of the calls of this package, beside redisdb.ErrDown.
var (
	// ErrConflict: the Idempotency-Key was used with another min_ttl, or for another identity.
	ErrConflict = errors.New("pool: idempotency key used for another request")
	// ErrClosed: the store is stopping; waiters were sent away.
	ErrClosed = errors.New("pool: closing")
	// ErrUnknownToken: no such token was handed out to this caller, or too long ago.
	ErrUnknownToken = errors.New("pool: unknown token")
	// ErrReported: the token was reported on before.
	ErrReported = errors.New("pool: token reported before")
	// ErrWindows: there are as many windows to come as an identity may have.
	ErrWindows = errors.New("pool: too many windows")
)

// EmptyError tells a caller that there is no token for it.
type EmptyError struct {
	RetryAfter time.Duration // when one under way should have landed for this caller; 0 = unknown
	Paused     bool          // buying is paused for this identity
	Pause      Pause         // where Paused
	Full       bool          // too many callers are waiting already
	Orders     int           // under way
	Waiting    int           // callers
}

func (e *EmptyError) Error() string { return "pool: empty" }

// RateError tells a caller that the target's rate is used up.
type RateError struct{ RetryAfter time.Duration }

func (e *RateError) Error() string { return "pool: rate limited" }

// FailedError tells a caller that an order has failed which it lacks now.
type FailedError struct {
	Reason  string
	Refused bool // the provider finds fault with the parameters
}

func (e *FailedError) Error() string { return "pool: an order failed: " + e.Reason }

// Source says how a caller came by its token.
type Source string

// The sources; docs/api.md.
const (
	FromPool   Source = "pool"   // was waiting
	FromWait   Source = "wait"   // landed while the caller waited
	FromReplay Source = "replay" // repeated by Idempotency-Key
)

// Token is one that was handed out. Times are on Redis' clock.
type Token struct {
	ID        string // names the token and proves who got it; see Report
	Order     string // that brought it; see Tokens.Name
	Value     string
	Provider  string
	UserAgent string
	Born      time.Time     // earliest moment at which it can have been solved
	Dies      time.Time     // true end of its life, margin not taken off
	TTL       time.Duration // Dies less the moment of the hand-out
	Source    Source
	Joined    bool // it was handed to another caller that waited with the same Idempotency-Key

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
	// Over ends the wait when it is closed, as if its time had passed; nil = nothing does.
	Over <-chan struct{}
	// Parked is called once the caller has to wait and holds a ticket. It must not block;
	// nil = nothing is.
	Parked func()
	// Caller is who asks; only the same one can report on the token.
	Caller string
	// Idempotency scopes a repeatable take: caller's name and its key. "" = none.
	Idempotency string
	// MaxWaiting: beyond so many tickets a waiting request is refused.
	MaxWaiting int
	// Rate tokens of this identity at most within any RatePer, over all
	// replicas; 0 = no limit.
	Rate    int
	RatePer time.Duration
	// Told: with a *FailedError the wait ends where an order failed that this caller
	// lacks now (Failure.Answer). Else it waits for the next order.
	Told bool
}

// Landing is a solved order on its way into the stock.
type Landing struct {
	Ref
	// Call names this ending of the order, so that it may be sent again: where that
	// one ended it before, it is Ended, else Gone. "" = a name of its own.
	Call      string
	Provider  string
	Task      string // the provider's id
	Value     string
	Repeats   bool // another token of the identity may have the same text, as pictures do
	UserAgent string
	Callback  bool // brought by a callback, which needs no lease
	// SincePlaced is the time from Place's answer to the earliest moment at which
	// it can have been solved. Redis knows when it carried out Place, which was
	// before its answer, so the birth computed from it is never too late, however
	// long the landing itself takes.
	SincePlaced time.Duration
	Submitted   time.Duration // from Place's answer to the submit
	Polls       int
	Lifetime    time.Duration
	Lead        time.Duration // submit to token, to be learned from; 0 = nothing to be learned
	// Answer and Margin are those of a Failure, for a landing that is Repeated.
	Answer *FailedError
	Margin time.Duration
}

// Window is a time in which at least Tokens are to be ready, made by Warm.
type Window struct {
	Tokens int
	In     time.Duration // until it begins; 0 or less: it runs
	Left   time.Duration // until it ends
}

// WindowLimit says how many windows of an identity a caller may have. The zero
// value is a caller without a limit of its own.
type WindowLimit struct {
	Caller string
	Most   int
}

// Stock is what one identity holds at one moment.
type Stock struct {
	Fresh      int           // tokens that outlive the margin
	Outliving  int           // those of them that outlive margin + lead
	Orders     int           // under way
	Waiting    int           // live tickets
	NextExpiry time.Duration // until the first fresh one meets its margin; <0 = none is fresh
	NextLook   time.Duration // until the first of the outliving stops outliving; <0 = there is none
	Paused     bool          // by an operator, not by the file

	// Look and Survey alone tell these.
	NextEnd   time.Duration   // until the first order is forgotten; 0 = there is none
	Unknown   int             // of the orders: nobody knows whether they were bought
	Bought    int             // of the orders: count as bought, the unknown ones too
	HourUsed  int             // solves of the target's budget in the last 60 min; counted while it has one
	DayUsed   int             // and in the last 24 h
	OrderAges []time.Duration // oldest first
	Leads     []time.Duration // the last 48 lead times, newest first
	Verdicts  []bool          // the last 20 reports, newest first; true = accepted
	Pause     Pause           // where Paused
	Resumes   time.Duration   // until that ends by itself; 0 = it does not
	Windows   []Window        // running and to come, the one that ends first in front
	Attempts  Attempts        // the orders that failed since the last solve
	Figures   Figures
	Err       error // of Survey: why nothing of this is known

	noted map[int64]string // see Days
	hour  string           // see Hour
}

// Figures count what happened to one identity since it was first seen, or a target took it
// over from the guests, over all replicas. At every moment
//
//	Bought = Hits + Waited - Returned + Expired + Failed + Lost + Discarded
//	         + Stock.Fresh + Stock.Bought
//
// The stats hash names a counter as its field in lower case, and the status document by the tag.
type Figures struct {
	// Requests asked the stock: hits, waited, misses and, of targets, callers that hung up
	// while they waited; of guests also the refused ones. Callers that wait together at one
	// replica under one Idempotency-Key are one.
	Requests  int64 `json:"requests"`
	Hits      int64 `json:"hits"`      // callers that got a token at once
	Waited    int64 `json:"waited"`    // callers that got a token that landed while they waited
	Misses    int64 `json:"misses"`    // callers that got none
	Refused   int64 `json:"-"`         // of guests: no token can come
	Replays   int64 `json:"-"`         // repeated by Idempotency-Key; not among Requests
	Bought    int64 `json:"bought"`    // orders that the provider accepted or may have accepted
	Solved    int64 `json:"solved"`    // tokens that landed
	Expired   int64 `json:"expired"`   // of those, expired unused
	Discarded int64 `json:"discarded"` // tokens that Flush removed; of guests also those that targets took over
	Failed    int64 `json:"failed"`    // bought orders that ended without a token
	Lost      int64 `json:"lost"`      // bought orders that expired before their outcome was known
	Junk      int64 `json:"junk"`      // foreign values found among the tokens and orders in Redis, and set aside
	Returned  int64 `json:"returned"`  // hand-outs taken back, because the caller had hung up
	Accepted  int64 `json:"accepted"`  // reports that a token was accepted
	Rejected  int64 `json:"rejected"`  // reports that a token was rejected
	Spent     int64 `json:"-"`         // price of what was solved or lost, in billionths of the currency
	// Unrecorded are ends of orders that the history missed, because too many waited for it.
	Unrecorded int64 `json:"-"`
}
