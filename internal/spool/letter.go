package spool

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"poold/internal/captcha"
)

// Letter is a provider's callback that Redis could not store: a paid token or an error code. It must not be printed.
type Letter struct {
	Order    string        `json:"order"`
	Identity captcha.ID    `json:"identity"`
	Provider string        `json:"provider"`
	Task     string        `json:"task"`
	Token    string        `json:"token,omitempty"`
	Extra    captcha.Extra `json:"extra,omitempty"`   // of the solution
	Expires  time.Time     `json:"expires,omitzero"`  // as the service says
	Code     string        `json:"code,omitempty"`    // error code, instead of a token
	Refused  bool          `json:"refused,omitempty"` // with Code: the provider rejects the target's parameters
	Reason   string        `json:"reason,omitempty"`  // why Redis did not store it, from redisdb.Reason
	Arrived  time.Time     `json:"arrived"`           // arrival of the order's first callback, by the wall clock
	Until    time.Time     `json:"until"`             // expiry of the token
}

// Summary describes a dead letter without its token. Its texts are printable ASCII of bounded length.
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

// isValid reports whether l is a dead letter. JSON would change text that is not UTF-8, and a changed token or id is
// useless.
func (l *Letter) isValid() bool {
	return l.Order != "" && (l.Token == "") != (l.Code == "") && !l.Arrived.IsZero() && !l.Until.IsZero() &&
		utf8.ValidString(l.Order+l.Provider+l.Task+l.Token)
}

// encode returns the content of a letter's file. Its error is ErrBad.
func (l *Letter) encode() ([]byte, error) {
	data, err := json.Marshal(l)
	if err != nil || !l.isValid() || len(data) > maxBytes {
		return nil, ErrBad
	}
	return data, nil
}

func (l *Letter) summary(at time.Time) Summary {
	shown := func(text string, most int) string {
		text = captcha.Printable(text)
		return text[:min(len(text), most)]
	}
	s := Summary{
		Order: shown(l.Order, 100), Provider: shown(l.Provider, 100), Task: shown(l.Task, 100), Kind: "token",
		Code: shown(l.Code, 100), Reason: shown(l.Reason, 300),
		Arrived: l.Arrived.UTC(), Age: max(0, int64(at.Sub(l.Arrived).Seconds())), Until: l.Until.UTC(),
	}
	if l.Token == "" {
		s.Kind = "error"
	}
	return s
}
