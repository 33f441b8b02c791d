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
	// letterVersion is the version of the file format. A file of another version is bad.
	letterVersion = 1
	// mostShownText and mostShownReason bound the texts of a Summary, in characters.
	mostShownText, mostShownReason = 100, 300
)

// Letter is a provider's callback that Redis could not store: a paid token or an error code. It
// must not be printed.
type Letter struct {
	Order     string     `json:"order"`
	Identity  captcha.ID `json:"identity"`
	Provider  string     `json:"provider"`
	Task      string     `json:"task"`
	Token     string     `json:"token,omitempty"`
	UserAgent string     `json:"user_agent,omitempty"`
	Code      string     `json:"code,omitempty"`    // instead of a token
	Refused   bool       `json:"refused,omitempty"` // with Code: the provider rejects the target's parameters
	Reason    string     `json:"reason,omitempty"`  // why Redis did not store it, as of redisdb.Reason
	Arrived   time.Time  `json:"arrived"`           // when the first callback arrived, by the wall clock
	Until     time.Time  `json:"until"`             // when its token has expired
}

// letterFile is the content of a dead letter's file.
type letterFile struct {
	Version int `json:"version"`
	Letter
}

// Summary is a dead letter without its secrets: the token and the user agent.
type Summary struct {
	Order    string    `json:"order"` // the part of the id before the first dot
	Provider string    `json:"provider"`
	Task     string    `json:"task,omitempty"`   // the provider's id; a callback may lack it
	Kind     string    `json:"kind"`             // token | error
	Code     string    `json:"code,omitempty"`   // of an error; printable ASCII, 100 characters at most
	Reason   string    `json:"reason,omitempty"` // why Redis did not store it; absent in letters of older versions
	Arrived  time.Time `json:"arrived"`          // UTC
	Age      int64     `json:"age_s"`            // since Arrived, in seconds
	Until    time.Time `json:"until"`            // UTC; when its token has expired
	Size     int64     `json:"bytes"`            // of the file
}

// encode returns the file of a dead letter. Its errors are ErrBad and ErrTooLarge.
func (l Letter) encode() ([]byte, error) {
	err := l.fault()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	}
	l.Arrived, l.Until = l.Arrived.UTC(), l.Until.UTC()
	data, err := json.Marshal(letterFile{letterVersion, l})
	switch {
	case err != nil: // a year outside of 0 to 9999
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	case len(data) > maxBytes:
		return nil, ErrTooLarge
	}
	return data, nil
}

// decodeLetter is the inverse of encode. Its errors quote nothing of data.
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

// fault returns why l is not a dead letter, or nil. JSON would change text that is not UTF-8, and
// a changed token or id is useless.
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

// shown returns the summary of a dead letter at a given time.
func (l Letter) shown(size int64, at time.Time) Summary {
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

// printable returns the first characters of a text, without those that a terminal cannot show.
func printable(text string, most int) string {
	text = captcha.Printable(text)
	return text[:min(len(text), most)]
}
