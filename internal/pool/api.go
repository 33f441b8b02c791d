package pool

import (
	"errors"
	"time"

	"poold/internal/captcha"
)

// Errors that the methods of a Store return, besides redisdb.ErrDown.
var (
	// ErrConflict means that the Idempotency-Key was used with another min_ttl or another identity.
	ErrConflict = errors.New("pool: idempotency key used for another request")
	// ErrClosed means that the store is stopping and ends all waits.
	ErrClosed = errors.New("pool: closing")
	// ErrUnknownToken means that the caller did not get this token, or that the token died more than
	// 15 min ago.
	ErrUnknownToken = errors.New("pool: unknown token")
	// ErrReported means that an earlier report on the token was counted.
	ErrReported = errors.New("pool: token reported before")
)

// EmptyError means that the stock has no token for a caller.
type EmptyError struct {
	RetryAfter time.Duration // estimated time until an order lands for this caller; 0 = unknown
	Paused     bool          // whether buying is paused for this identity
	Pause      Pause         // the pause, if Paused is set
	Full       bool          // whether the queue of pending callers is full
	Orders     int           // orders in flight
	Waiting    int           // pending callers
}

// Error implements error.
func (e *EmptyError) Error() string { return "pool: empty" }

// RateError means that the rate limit of the target, or of all guests, is reached.
type RateError struct{ RetryAfter time.Duration }

// Error implements error.
func (e *RateError) Error() string { return "pool: rate limited" }

// FailedError means that an order failed, and that no other order or token is left for the caller.
type FailedError struct {
	Reason  string
	Refused bool // whether the provider rejects the parameters
}

// Error implements error.
func (e *FailedError) Error() string { return "pool: an order failed: " + e.Reason }

// Source says how a caller got its token.
type Source string

// The sources of a token. docs/api.md explains them.
const (
	FromPool   Source = "pool"   // the token was in stock
	FromWait   Source = "wait"   // the token landed while the caller waited
	FromReplay Source = "replay" // the token was handed out before for the same Idempotency-Key
)

// Token is a token that was handed out. Token's times are on Redis' clock.
type Token struct {
	ID        string // identifies the token and proves which caller got it; see Report
	Order     string // the order that bought the token; see Tokens.TokenID
	Value     string
	Provider  string
	UserAgent string
	Born      time.Time     // the earliest possible time of the solve
	Dies      time.Time     // the end of the token's life; the margin is not subtracted
	TTL       time.Duration // time from the hand-out to Dies
	Source    Source
	Joined    bool // whether another caller, which waited with the same Idempotency-Key, got the token first

	// The method Return needs the following fields.
	identity captcha.ID
	margin   time.Duration
	element  string // the token's list element in Redis
	handout  string // identifies this hand-out, so that the token is returned at most once; "" = it is never returned
}

// Request asks for one token.
type Request struct {
	ID     captcha.ID
	Margin time.Duration
	MinTTL time.Duration // minimum remaining life of the token; no effect below Margin
	Wait   time.Duration // how long the caller waits for a token; 0 = no wait
	// The wait ends early when the channel Over is closed. Over may be nil.
	Over <-chan struct{}
	// Parked is called when the caller gets a ticket and has to wait. The function must not block.
	// Parked may be nil.
	Parked func()
	// Caller is the name of the caller. Only this caller can report on the token.
	Caller string
	// Idempotency identifies a repeatable take by the caller's name and the Idempotency-Key. "" = the
	// take is not repeatable.
	Idempotency string
	// MaxWaiting limits the tickets of the identity. At the limit, a request with a Wait is refused.
	MaxWaiting int
	// Rate is the maximum number of this identity's tokens that all replicas hand out in any period of
	// length RatePer; 0 = no limit.
	Rate    int
	RatePer time.Duration
	// EndOnFailure ends the wait with a *FailedError if an order fails and too few orders and tokens
	// are left for this caller; see Failure.Answer. Without EndOnFailure, the caller waits for the
	// next order.
	EndOnFailure bool
}

// Landing is a solved order on its way into the stock.
type Landing struct {
	Ref
	// Call identifies one call of Settle and its retries. If an earlier try ended the order, a retry
	// returns the result of that try and not Gone. "" = a random name.
	Call      string
	Provider  string
	Task      string // the provider's task id
	Value     string
	Repeats   bool // whether two tokens of the identity may have the same text, as for image CAPTCHAs
	UserAgent string
	Callback  bool // whether a callback delivered the token, so Settle needs no lease
	// SincePlaced is the time from the reply of Place to the earliest possible time of the solve.
	// settle.lua adds this duration to the time of the placing. Redis executes Place before it
	// replies, so the computed birth is never too late.
	SincePlaced time.Duration
	Submitted   time.Duration // time from the reply of Place to the submit
	Polls       int
	Lifetime    time.Duration
	Lead        time.Duration // lead time of the order, for the identity's statistics; 0 = none
	// Answer and Margin have the same meaning as in Failure. Settle uses them if the order ends as
	// Repeated.
	Answer *FailedError
	Margin time.Duration
}

// Stock is the state of one identity at one point in time.
type Stock struct {
	Fresh      int           // tokens that outlive the margin
	Outliving  int           // tokens that outlive the margin and the lead time
	Orders     int           // orders in flight
	Waiting    int           // tickets of pending callers
	NextExpiry time.Duration // time until the first fresh token enters its margin; <0 = no fresh token
	NextLook   time.Duration // time until Outliving falls; <0 = Outliving is 0
	Paused     bool          // whether an operator paused buying; a pause in pools.yaml does not count

	NextEnd   time.Duration   // time until the first deadline of an order; 0 = no order
	Unknown   int             // orders that the provider may or may not have accepted
	Bought    int             // orders that count as bought, including the orders in Unknown
	HourUsed  int             // solves of the last 60 min in the target's budget; 0 without a budget
	DayUsed   int             // solves of the last 24 h in the target's budget; 0 without a budget
	OrderAges []time.Duration // ages of the orders in flight, oldest first
	Leads     []time.Duration // the last 48 lead times, newest first
	Verdicts  []bool          // the last 20 reports, newest first; true = accepted
	Pause     Pause           // the operator's pause, if Paused is set
	Resumes   time.Duration   // time until the pause ends; 0 = the pause has no end
	Attempts  Attempts        // the orders that failed since the last solve
	Figures   Figures
	Err       error // the error if LookAll could not read the other fields

	dayStarts map[int64]string // see Days
	hour      string           // see Hour
}

// Figures count events of one identity over all replicas. Counting starts when the identity is first
// seen, or when a target takes it over from the guests. At any time this equation holds:
//
//	Bought = Hits + Waited - Returned + Expired + Failed + Lost + Discarded
//	         + Stock.Fresh + Stock.Bought
//
// In the stats hash, a counter has the name of its field in lower case. In the status document, it
// has the JSON name in the field's tag.
type Figures struct {
	// Requests is the sum of Hits, Waited and Misses. For a target, Requests also counts callers that
	// hung up while they waited; for a guest, Requests also counts refused requests. Callers that wait
	// at one replica with the same Idempotency-Key count once.
	Requests  int64 `json:"requests"`
	Hits      int64 `json:"hits"`      // callers that got a token at once
	Waited    int64 `json:"waited"`    // callers that got a token that landed while they waited
	Misses    int64 `json:"misses"`    // callers that got no token
	Refused   int64 `json:"-"`         // requests for guests that were refused, because no token could come
	Replays   int64 `json:"-"`         // tokens repeated for an Idempotency-Key; not part of Requests
	Bought    int64 `json:"bought"`    // orders that the provider accepted or may have accepted
	Solved    int64 `json:"solved"`    // tokens that landed
	Expired   int64 `json:"expired"`   // landed tokens that expired unused
	Discarded int64 `json:"discarded"` // tokens removed by Flush; for guests also tokens and orders taken over by targets
	Failed    int64 `json:"failed"`    // bought orders that ended without a token
	Lost      int64 `json:"lost"`      // bought orders that expired before their outcome was known
	Returned  int64 `json:"returned"`  // tokens put back after their callers hung up
	Accepted  int64 `json:"accepted"`  // reports that a token was accepted
	Rejected  int64 `json:"rejected"`  // reports that a token was rejected
	Spent     int64 `json:"-"`         // price of solved and lost orders, in billionths of the currency
	// Unrecorded counts the ended orders that the history lacks, because too many ends were already
	// stored.
	Unrecorded int64 `json:"-"`
}
