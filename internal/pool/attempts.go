package pool

import (
	"fmt"
	"strings"
	"time"

	"poold/internal/redisdb"
)

// Attempt is the effect of an order without a token on the bound of its identity.
type Attempt string

// The attempts. The zero value has no effect.
const (
	Declined Attempt = "refused"  // the provider refused the submit
	Unsolved Attempt = "failed"   // the provider accepted the submit and solved nothing
	Hopeless Attempt = "hopeless" // the provider rejects the parameters, at the submit or later
)

const (
	// attemptsLife is how long attempts of an identity are remembered after the last one.
	attemptsLife = 2 * time.Minute
	// hopelessLife is the same for a target whose parameters are rejected. It exceeds the
	// longest interval between two probes.
	hopelessLife = 24 * time.Hour
)

// attemptsKept returns how long the attempts of an identity are remembered.
func attemptsKept(a Attempt, guest bool) time.Duration {
	if a == Hopeless && !guest {
		return hopelessLife
	}
	return attemptsLife
}

// Attempts describes the orders of an identity that failed since its last solve, over all
// replicas. From three refusals in a row on, or eight failures and refusals, its orders are
// bounded: one in 5 s, and one in a minute to an hour while the parameters are rejected.
// Place enforces the bound.
type Attempts struct {
	Refused  int           // submits that the provider refused, in a row
	Failed   int           // accepted orders that brought no token, in a row
	Hopeless bool          // the provider rejects the parameters
	Reason   string        // of the last one
	Bounded  time.Duration // since when the orders are bounded; 0 = they are not
	Next     time.Duration // until the next order may be placed; 0 = now
	Every    time.Duration // from one order to the next while they are bounded
}

// readAttempts reads the hash that look.lua replies; now is Redis' clock in Unix ms.
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

// BoundedError says that an order was not placed because the last ones of its identity
// failed. Nothing was bought.
type BoundedError struct {
	RetryAfter time.Duration // until the next order may be placed
	Hopeless   bool          // the provider rejects the parameters
	Reason     string        // of the last failure
}

// Error names the wait and the reason of the last failure.
func (e *BoundedError) Error() string {
	return fmt.Sprintf("the last orders failed, the next one is placed in %v: %s", e.RetryAfter.Round(time.Second), e.Reason)
}

// mostReason is the longest kept reason in bytes.
const mostReason = 500

// The words in front of a reason.
const (
	wordFailed  = "failed"
	wordRefused = "refused"
)

// text returns the answer as the scripts keep it; "" = no answer.
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

// CutReason shortens a reason to the 500 bytes that are kept.
func CutReason(reason string) string {
	if len(reason) > mostReason {
		return strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return reason
}

// readFailed is the inverse of text.
func readFailed(text string) *FailedError {
	word, reason, _ := strings.Cut(text, "|")
	return &FailedError{Reason: reason, Refused: word == wordRefused}
}
