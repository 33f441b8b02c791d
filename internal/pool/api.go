package pool

import (
	"errors"
	"time"

	"poold/internal/captcha"
)

// The errors of this package's calls, besides redisdb.ErrDown.
var (
	// ErrConflict: the Idempotency-Key was used with another min_ttl, or for another identity.
	ErrConflict = errors.New("pool: idempotency key used for another request")
	// ErrClosed: the store is stopping and ends all waits.
	ErrClosed = errors.New("pool: closing")
	// ErrUnknownToken: this caller did not get such a token, or the token died long ago.
	ErrUnknownToken = errors.New("pool: unknown token")
	// ErrReported: the token was reported on before.
	ErrReported = errors.New("pool: token reported before")
	// ErrWindows: the identity has as many windows as it may have.
	ErrWindows = errors.New("pool: too many windows")
)

// EmptyError says that the stock has no token for a caller.
type EmptyError struct {
	RetryAfter time.Duration // until an order should have landed for this caller; 0 = unknown
	Paused     bool          // buying is paused for this identity
	Pause      Pause         // with Paused
	Full       bool          // the queue of pending callers is full
	Orders     int           // orders in flight
	Waiting    int           // pending callers
}

// Error returns a constant text; the fields have the details.
func (e *EmptyError) Error() string { return "pool: empty" }

// RateError says that the target's rate is used up.
type RateError struct{ RetryAfter time.Duration }

// Error returns a constant text.
func (e *RateError) Error() string { return "pool: rate limited" }

// FailedError says that an order failed and the stock has no other order for the caller.
type FailedError struct {
	Reason  string
	Refused bool // the provider rejects the parameters
}

// Error names the reason of the failure.
func (e *FailedError) Error() string { return "pool: an order failed: " + e.Reason }

// Source says how a caller got its token.
type Source string

// The sources; see docs/api.md.
const (
	FromPool   Source = "pool"   // it was in stock
	FromWait   Source = "wait"   // it landed while the caller waited
	FromReplay Source = "replay" // repeated for an Idempotency-Key
)

// Token is a token that was handed out. Times are on Redis' clock.
type Token struct {
	ID        string // names the token and proves who got it; see Report
	Order     string // the order that brought it; see Tokens.TokenID
	Value     string
	Provider  string
	UserAgent string
	Born      time.Time     // the earliest moment at which it can have been solved
	Dies      time.Time     // the end of its life, without the margin
	TTL       time.Duration // from the hand-out to Dies
	Source    Source
	Joined    bool // another caller with the same Idempotency-Key got it at the same time

	// For Return:
	identity captcha.ID
	margin   time.Duration
	element  string // of the list in Redis
	handout  string // names this hand-out, so that it is returned at most once; "" = never
}

// Request asks for one token.
type Request struct {
	ID     captcha.ID
	Margin time.Duration
	MinTTL time.Duration // least life, without the margin; 0 = any that outlives the margin
	Wait   time.Duration // 0 = answer at once
	// Over ends the wait early when it is closed; may be nil.
	Over <-chan struct{}
	// Parked is called when the caller holds a ticket and has to wait. It must not block; may
	// be nil.
	Parked func()
	// Caller names the caller. Only this caller can report on the token.
	Caller string
	// Idempotency scopes a repeatable take: the caller's name and its key. "" = none.
	Idempotency string
	// MaxWaiting is the number of tickets beyond which a waiting request is refused.
	MaxWaiting int
	// Rate limits the tokens of this identity within any RatePer, over all replicas; 0 = no limit.
	Rate    int
	RatePer time.Duration
	// EndOnFailure ends the wait with a *FailedError if an order fails that this caller now
	// lacks (Failure.Answer). Without it the caller waits for the next order.
	EndOnFailure bool
}

// Landing is a solved order on its way into the stock.
type Landing struct {
	Ref
	// Call identifies this end of the order, so that a retry is recognised: it returns Ended
	// if an earlier try ended the order, else Gone. "" = a random name.
	Call      string
	Provider  string
	Task      string // the provider's id
	Value     string
	Repeats   bool // another token of the identity may have the same text, as pictures do
	UserAgent string
	Callback  bool // brought by a callback, which needs no lease
	// SincePlaced is the time from Place's reply to the earliest moment at which the task can
	// have been solved. Redis executes Place before it replies, so the birth computed from it
	// is never too late, however late the landing is.
	SincePlaced time.Duration
	Submitted   time.Duration // from Place's reply to the submit
	Polls       int
	Lifetime    time.Duration
	Lead        time.Duration // from submit to token, to be learned; 0 = not to be learned
	// Answer and Margin are used as in Failure if the landing is Repeated.
	Answer *FailedError
	Margin time.Duration
}

// Window is a time in which at least Tokens are to be ready; see Warm.
type Window struct {
	Tokens int
	In     time.Duration // until it begins; 0 or less: it runs
	Left   time.Duration // until it ends
}

// WindowLimit limits the windows that a caller may have of an identity. The zero value is a
// caller without a limit.
type WindowLimit struct {
	Caller string
	Most   int
}

// Stock is the state of one identity at one moment.
type Stock struct {
	Fresh      int           // tokens that outlive the margin
	Outliving  int           // tokens that outlive margin + lead
	Orders     int           // in flight
	Waiting    int           // live tickets
	NextExpiry time.Duration // until the first fresh token meets its margin; <0 = no fresh token
	NextLook   time.Duration // until the first outliving token stops outliving; <0 = no such token
	Paused     bool          // by an operator, not by the file

	NextEnd   time.Duration   // until the first order's deadline; 0 = no order
	Unknown   int             // orders of which it is unknown whether they were bought
	Bought    int             // orders that count as bought, including the unknown ones
	HourUsed  int             // solves of the target's budget in the last 60 min; 0 without a budget
	DayUsed   int             // the same in the last 24 h
	OrderAges []time.Duration // oldest first
	Leads     []time.Duration // the last 48 lead times, newest first
	Verdicts  []bool          // the last 20 reports, newest first; true = accepted
	Pause     Pause           // with Paused
	Resumes   time.Duration   // until the pause ends; 0 = it does not
	Windows   []Window        // running and future ones, by their ends
	Attempts  Attempts        // the orders that failed since the last solve
	Figures   Figures
	Err       error // of LookAll: why the other fields are unknown

	dayStarts map[int64]string // see Days
	hour      string           // see Hour
}

// Figures count what happened to one identity, over all replicas, since it was first seen or a
// target took it over from the guests. At every moment
//
//	Bought = Hits + Waited - Returned + Expired + Failed + Lost + Discarded
//	         + Stock.Fresh + Stock.Bought
//
// The stats hash names a counter as its field in lower case, and the status document by the tag.
type Figures struct {
	// Requests are hits, waited and misses. Of targets they include callers that hung up while
	// they waited, and of guests refused requests. Callers that wait together at one replica
	// with one Idempotency-Key count once.
	Requests  int64 `json:"requests"`
	Hits      int64 `json:"hits"`      // callers that got a token at once
	Waited    int64 `json:"waited"`    // callers that got a token that landed while they waited
	Misses    int64 `json:"misses"`    // callers that got no token
	Refused   int64 `json:"-"`         // of guests: no token can come
	Replays   int64 `json:"-"`         // repeated for an Idempotency-Key; not among Requests
	Bought    int64 `json:"bought"`    // orders that the provider accepted or may have accepted
	Solved    int64 `json:"solved"`    // tokens that landed
	Expired   int64 `json:"expired"`   // landed tokens that expired unused
	Discarded int64 `json:"discarded"` // tokens that Flush removed; of guests also tokens that targets took over
	Failed    int64 `json:"failed"`    // bought orders that ended without a token
	Lost      int64 `json:"lost"`      // bought orders that expired before their outcome was known
	Junk      int64 `json:"junk"`      // foreign values found among the tokens and orders, and set aside
	Returned  int64 `json:"returned"`  // hand-outs taken back, because the caller had hung up
	Accepted  int64 `json:"accepted"`  // reports that a token was accepted
	Rejected  int64 `json:"rejected"`  // reports that a token was rejected
	Spent     int64 `json:"-"`         // price of solved and lost orders, in billionths of the currency
	// Unrecorded are ends of orders that the history missed, because too many were pending.
	Unrecorded int64 `json:"-"`
}
