package pool

import (
	"fmt"
	"strings"
	"time"

	"poold/internal/redisdb"
)

// Attempt is the kind of a failed order. Attempt decides how the failure counts for the bound of the
// identity.
type Attempt string

// The values of Attempt. An order whose Attempt is "" does not count.
const (
	Declined Attempt = "refused"  // the provider refused the submit
	Unsolved Attempt = "failed"   // the provider accepted the submit and solved nothing
	Hopeless Attempt = "hopeless" // the provider rejects the parameters, at the submit or later
)

const (
	// attemptsLife is how long Redis keeps an identity's Attempts after the last failure.
	attemptsLife = 2 * time.Minute
	// hopelessLife replaces attemptsLife if the provider rejects the parameters of a target.
	// hopelessLife exceeds the longest interval between two probes.
	hopelessLife = 24 * time.Hour
)

// attemptsKept returns how long Redis keeps the Attempts of an identity after this failure.
func attemptsKept(a Attempt, guest bool) time.Duration {
	if a == Hopeless && !guest {
		return hopelessLife
	}
	return attemptsLife
}

// Attempts describes the failed orders of an identity since its last solve, over all replicas. The
// identity is bounded after three refusals, or after eight failures and refusals together. Place
// then allows one order in 5 s. While the provider rejects the parameters, the interval grows from
// a minute to an hour.
type Attempts struct {
	Refused  int           // submits that the provider refused
	Failed   int           // accepted orders that brought no token
	Hopeless bool          // whether the provider rejects the parameters
	Reason   string        // reason of the last failure
	Bounded  time.Duration // how long the identity has been bounded; 0 = it is not bounded
	Next     time.Duration // time until Place allows the next order; 0 = now
	Every    time.Duration // interval between two orders of a bounded identity
}

// readAttempts parses the hash in the reply of look.lua. The argument now is the time on Redis' clock
// in Unix ms.
func readAttempts(h redisdb.Hash, now int64) Attempts {
	a := Attempts{
		Refused: int(h.Int("refused")), Failed: int(h.Int("failed")),
		Hopeless: h["hopeless"] == "1", Reason: h["reason"], Every: h.Duration("every"),
	}
	if since := h.Int("since"); since > 0 {
		next := max(0, h.Int("next")-now)
		a.Bounded = time.Duration(max(1, now-since)) * time.Millisecond
		a.Next = min(time.Duration(next)*time.Millisecond, max(a.Every, time.Minute))
	}
	return a
}

// BoundedError means that an order was not placed because the identity's last orders failed.
type BoundedError struct {
	RetryAfter time.Duration // time until Place allows the next order
	Hopeless   bool          // whether the provider rejects the parameters
	Reason     string        // reason of the last failure
}

// Error implements error.
func (e *BoundedError) Error() string {
	return fmt.Sprintf("the last orders failed, the next one is placed in %v: %s", e.RetryAfter.Round(time.Second), e.Reason)
}

// mostReason is the maximum length of a stored reason in bytes.
const mostReason = 500

// The stored form of a FailedError begins with one of these words.
const (
	wordFailed  = "failed"
	wordRefused = "refused"
)

// text returns the stored form of the error; "" for nil.
func (e *FailedError) text() string {
	if e == nil {
		return ""
	}
	word, reason := wordFailed, e.Reason
	if e.Refused {
		word = wordRefused
	}
	return word + "|" + CutReason(reason)
}

// CutReason shortens a reason to 500 bytes.
func CutReason(reason string) string {
	if len(reason) > mostReason {
		return strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return reason
}

// readFailed parses an error in the form that FailedError.text returns.
func readFailed(text string) *FailedError {
	word, reason, _ := strings.Cut(text, "|")
	return &FailedError{Reason: reason, Refused: word == wordRefused}
}
