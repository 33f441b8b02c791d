package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"poold/internal/captcha"
)

const (
	// letterVersion is the version of the file format. A file with another version is bad.
	letterVersion = 1
	// mostShownText and mostShownReason are the maximum lengths of a Summary's texts, in characters.
	mostShownText, mostShownReason = 100, 300
)

// Letter is a provider's callback that Redis could not store: a paid token or an error code. A Letter
// must not be printed.
type Letter struct {
	Order     string     `json:"order"`
	Identity  captcha.ID `json:"identity"`
	Provider  string     `json:"provider"`
	Task      string     `json:"task"`
	Token     string     `json:"token,omitempty"`
	UserAgent string     `json:"user_agent,omitempty"`
	Code      string     `json:"code,omitempty"`    // error code, instead of a token
	Refused   bool       `json:"refused,omitempty"` // with Code: whether the provider rejects the target's parameters
	Reason    string     `json:"reason,omitempty"`  // reason of Redis for not storing the callback, from redisdb.Reason
	Arrived   time.Time  `json:"arrived"`           // arrival of the order's first callback, by the wall clock
	Until     time.Time  `json:"until"`             // expiry of the token
}

type letterFile struct {
	Version int `json:"version"`
	Letter
}

// Summary describes a dead letter without the letter's secrets, which are the token and the user
// agent.
type Summary struct {
	Order    string    `json:"order"` // part of the order's id before the first dot
	Provider string    `json:"provider"`
	Task     string    `json:"task,omitempty"`   // the provider's id of the task; a callback may lack it
	Kind     string    `json:"kind"`             // token | error
	Code     string    `json:"code,omitempty"`   // error code; printable ASCII, at most 100 characters
	Reason   string    `json:"reason,omitempty"` // reason of Redis for not storing the callback; absent in older letters
	Arrived  time.Time `json:"arrived"`          // UTC
	Age      int64     `json:"age_s"`            // time since Arrived, in seconds
	Until    time.Time `json:"until"`            // expiry of the token, in UTC
	Size     int64     `json:"bytes"`            // size of the file
}

// encode returns the content of a dead letter's file. encode's errors are ErrBad and ErrTooLarge.
func (l Letter) encode() ([]byte, error) {
	err := l.fault()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	}
	l.Arrived, l.Until = l.Arrived.UTC(), l.Until.UTC()
	data, err := json.Marshal(letterFile{letterVersion, l})
	switch {
	case err != nil: // a time has a year outside 0 to 9999
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	case len(data) > maxBytes:
		return nil, ErrTooLarge
	}
	return data, nil
}

// decodeLetter decodes the content of a letter's file, as made by encode. The errors contain no part
// of the content.
func decodeLetter(data []byte) (Letter, error) {
	var l letterFile
	if !utf8.Valid(data) || json.Unmarshal(data, &l) != nil {
		return Letter{}, errors.New("broken")
	}
	if l.Version != letterVersion {
		return Letter{}, fmt.Errorf("of version %d", l.Version)
	}
	return l.Letter, l.fault()
}

// fault returns the reason why l is not a valid dead letter, or nil. Text that is not UTF-8 is
// invalid, because JSON would change the text, and a changed token or id is useless.
func (l Letter) fault() error {
	switch {
	case l.Order == "":
		return errors.New("without an order")
	case (l.Token == "") == (l.Code == ""):
		return errors.New("without a token and a code, or with both")
	case l.Arrived.IsZero() || l.Until.IsZero():
		return errors.New("without a time")
	case !utf8.ValidString(l.Order + l.Provider + l.Task + l.Token):
		return errors.New("with text that is not UTF-8")
	}
	return nil
}

// summary returns the summary of a dead letter. The age of the letter is its age at the given time.
func (l Letter) summary(size int64, at time.Time) Summary {
	order, _, _ := strings.Cut(l.Order, ".")
	s := Summary{
		Order: printable(order, mostShownText), Provider: printable(l.Provider, mostShownText),
		Task: printable(l.Task, mostShownText), Kind: "token", Reason: printable(l.Reason, mostShownReason),
		Arrived: l.Arrived.UTC(), Age: max(0, int64(at.Sub(l.Arrived).Seconds())), Until: l.Until.UTC(), Size: size,
	}
	if l.Token == "" {
		s.Kind, s.Code = "error", printable(l.Code, mostShownText)
	}
	return s
}

// printable removes unprintable characters from a text and shortens it to the given length.
func printable(text string, most int) string {
	text = captcha.Printable(text)
	return text[:min(len(text), most)]
}
