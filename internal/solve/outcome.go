package solve

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
)

// storedEnd is the end of a shared solve in the claim store: a token, or an error.
type storedEnd struct {
	Token *sharedToken `json:"token,omitempty"`
	Error *sharedError `json:"error,omitempty"`
}

// sharedToken is the stored form of a token that several callers share.
type sharedToken struct {
	Order     string `json:"order"`
	Value     string `json:"value"`
	Provider  string `json:"provider"`
	UserAgent string `json:"user_agent,omitempty"`
	Born      int64  `json:"born"`      // Unix ms
	Dies      int64  `json:"dies"`      // Unix ms
	TTL       int64  `json:"ttl_ms"`    // remaining life of the token at the end of the solve
	Shared    int64  `json:"shared_ms"` // how long the token is shared after the end of the solve
}

// sharedError is the stored form of the error of a solve that brought no token.
type sharedError struct {
	Kind   errorKind `json:"kind"`
	Reason string    `json:"reason,omitempty"`
	Retry  int64     `json:"retry_ms,omitempty"` // 0 = unknown
}

type errorKind string

const (
	kindFailed  errorKind = "failed"
	kindRefused errorKind = "refused"
	kindOutage  errorKind = "outage"
	kindBudget  errorKind = "budget"
	kindRate    errorKind = "rate"
	kindFull    errorKind = "full"
)

// encodeToken encodes a token that may be shared for the duration `lasts`.
func encodeToken(t pool.Token, lasts time.Duration) []byte {
	return encode(storedEnd{Token: &sharedToken{
		Order: t.Order, Value: t.Value, Provider: t.Provider, UserAgent: t.UserAgent,
		Born: t.Born.UnixMilli(), Dies: t.Dies.UnixMilli(), TTL: t.TTL.Milliseconds(), Shared: lasts.Milliseconds(),
	}})
}

// encodeError encodes the error of a solve that brought no token.
func encodeError(err error) []byte {
	var (
		solve  *SolveError
		outage *OutageError
		budget *BudgetError
		rate   *pool.RateError
		empty  *pool.EmptyError
	)
	e := sharedError{Kind: kindFailed, Reason: err.Error()}
	switch {
	case errors.As(err, &solve):
		e.Reason = solve.Reason
		if solve.Refused {
			e.Kind = kindRefused
		}
	case errors.As(err, &outage):
		e = sharedError{Kind: kindOutage, Reason: outage.Reason}
		if !outage.Until.IsZero() {
			e.Retry = time.Until(outage.Until).Milliseconds()
		}
	case errors.As(err, &budget):
		e = sharedError{Kind: kindBudget, Reason: budget.Reason, Retry: budget.RetryAfter.Milliseconds()}
	case errors.As(err, &rate):
		e = sharedError{Kind: kindRate, Retry: rate.RetryAfter.Milliseconds()}
	case errors.As(err, &empty):
		e = sharedError{Kind: kindFull}
	}
	return encode(storedEnd{Error: &e})
}

func encode(v storedEnd) []byte {
	text, _ := json.Marshal(v) // encoding strings and numbers cannot fail
	return text
}

// readEnd returns the outcome of a solve that has ended. The claim store may share a token that
// expires within the margin, because the store's clock may have been set back. For such a token
// readEnd returns an error.
func readEnd(c dedup.Claim, margin time.Duration) outcome {
	var v storedEnd
	_ = json.Unmarshal(c.Value, &v) // an invalid value leaves v empty: the outcome is unknown
	switch {
	case c.State == dedup.ClaimShared && v.Token != nil && time.Until(time.UnixMilli(v.Token.Dies)) <= margin:
		return outcome{err: &SolveError{Reason: "the token of the shared solve has expired"}}
	case c.State == dedup.ClaimShared && v.Token != nil:
		return outcome{token: v.Token.token(c.Left)}
	case v.Error != nil:
		return outcome{err: v.Error.err()}
	}
	return outcome{err: &SolveError{Reason: "the shared solve has ended, and its outcome is unknown"}}
}

// token returns the token with its remaining life. The argument left is the remaining time for which
// the token may be shared.
func (t *sharedToken) token(left time.Duration) pool.Token {
	since := time.Duration(t.Shared)*time.Millisecond - left
	return pool.Token{
		Order: t.Order, Value: t.Value, Provider: t.Provider, UserAgent: t.UserAgent, Source: FromShared,
		Born: time.UnixMilli(t.Born).UTC(), Dies: time.UnixMilli(t.Dies).UTC(),
		TTL: time.Duration(t.TTL)*time.Millisecond - max(0, since),
	}
}

func (e *sharedError) err() error {
	retry := time.Duration(e.Retry) * time.Millisecond
	switch e.Kind {
	case kindOutage:
		outage := &OutageError{Reason: e.Reason}
		if retry > 0 {
			outage.Until = time.Now().Add(retry)
		}
		return outage
	case kindBudget:
		return &BudgetError{Reason: e.Reason, RetryAfter: retry}
	case kindRate:
		return &pool.RateError{RetryAfter: retry}
	case kindFull:
		return &pool.EmptyError{Full: true}
	case kindRefused, kindFailed:
	}
	return &SolveError{Refused: e.Kind == kindRefused, Reason: cmp.Or(e.Reason, "the solve failed")}
}
