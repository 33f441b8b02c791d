package spool

import (
	"time"

	"poold/internal/captcha"
)

// Letter is a provider's callback that Redis could not store: a paid token or an error code. It must not be printed.
type Letter struct {
	Order         string        `json:"order"`
	Identity      captcha.ID    `json:"identity"`
	Provider      string        `json:"provider"`
	Task          string        `json:"task"`
	Token         string        `json:"token,omitempty"`
	Extra         captcha.Extra `json:"extra,omitempty"`          // of the solution
	Expires       time.Time     `json:"expires,omitzero"`         // as the service says
	Code          string        `json:"code,omitempty"`           // error code, instead of a token
	BadParameters bool          `json:"bad_parameters,omitempty"` // with Code: the provider rejects them
	Reason        string        `json:"reason,omitempty"`         // why Redis did not store it, from redisdb.Reason
	Arrived       time.Time     `json:"arrived"`                  // of the first callback of the order, by the wall clock
	Until         time.Time     `json:"until"`                    // expiry of the token
}

// Summary describes a dead letter without its token.
type Summary struct {
	Order    string    `json:"order"`
	Provider string    `json:"provider"`
	Task     string    `json:"task,omitempty"`   // the provider's id of the task; a callback may lack it
	Kind     string    `json:"kind"`             // token | error
	Code     string    `json:"code,omitempty"`   // error code
	Reason   string    `json:"reason,omitempty"` // why Redis did not store it
	Arrived  time.Time `json:"arrived"`          // UTC
	Age      int64     `json:"age_s"`            // seconds since Arrived
	Until    time.Time `json:"until"`            // expiry of the token, in UTC
}

func (l *Letter) summary(at time.Time) Summary {
	s := Summary{
		Order: l.Order, Provider: l.Provider, Task: l.Task, Kind: "token", Code: l.Code, Reason: l.Reason,
		Arrived: l.Arrived.UTC(), Age: max(0, int64(at.Sub(l.Arrived).Seconds())), Until: l.Until.UTC(),
	}
	if l.Token == "" {
		s.Kind = "error"
	}
	return s
}
