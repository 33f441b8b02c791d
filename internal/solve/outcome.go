package solve

import (
	"encoding/json"
	"errors"
	"time"

	"poold/internal/claims"
	"poold/internal/pool"
)

// storedEnd is the end of a shared solve in the claim store: a token, or one of the errors.
type storedEnd struct {
	Token *pool.Token   `json:"token,omitempty"`
	Lasts time.Duration `json:"lasts,omitempty"` // how long the token is shared after the end of the solve

	Failed *pool.FailedError `json:"failed,omitempty"`
	Rate   *pool.RateError   `json:"rate,omitempty"`
	Empty  *pool.EmptyError  `json:"empty,omitempty"`
}

// encodeEnd encodes the token, or an error.
func encodeEnd(token pool.Token, lasts time.Duration, err error) []byte {
	e := storedEnd{Lasts: lasts}
	switch {
	case err == nil:
		e.Token = &token
	case errors.As(err, &e.Failed), errors.As(err, &e.Rate), errors.As(err, &e.Empty):
	default:
		e.Failed = &pool.FailedError{Reason: err.Error()}
	}
	text, _ := json.Marshal(e) // of strings, numbers and times: no error is possible
	return text
}

// readEnd returns the outcome of a solve that has ended. A token that expires within the margin gives an error. The
// claim store may return such a token if its clock was set back.
func readEnd(c claims.Claim, margin time.Duration) outcome {
	var e storedEnd
	_ = json.Unmarshal(c.Value, &e) // an invalid value leaves e empty: the outcome is unknown
	switch {
	case e.Token != nil && time.Until(e.Token.Dies) <= margin:
		return outcome{err: &pool.FailedError{Reason: "the token of the shared solve has expired"}}
	case e.Token != nil:
		t := *e.Token
		t.Source, t.TTL = FromShared, t.TTL-max(0, e.Lasts-c.Left)
		return outcome{token: t}
	case e.Failed != nil:
		return outcome{err: e.Failed}
	case e.Rate != nil:
		return outcome{err: e.Rate}
	case e.Empty != nil:
		return outcome{err: e.Empty}
	}
	return outcome{err: &pool.FailedError{Reason: "the shared solve has ended, and its outcome is unknown"}}
}
