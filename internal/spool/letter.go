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
	// letterVersion is the form of a file. Another one is set aside.
	letterVersion = 1
	// mostShownText is how many characters of a text from outside a list shows.
	mostShownText = 100
	// mostShownReason is how many of a reason.
	mostShownReason = 300
)

// Letter is a provider's callback that Redis could not take: a token that is
// paid for, or an error code. It must not be printed.
type Letter struct {
	Order     string     `json:"order"`
	Identity  captcha.ID `json:"identity"`
	Provider  string     `json:"provider"`
	Task      string     `json:"task"`
	Token     string     `json:"token,omitempty"`
	UserAgent string     `json:"user_agent,omitempty"`
	Code      string     `json:"code,omitempty"`    // instead of a token
	Refused   bool       `json:"refused,omitempty"` // with Code: a fault of the target's parameters
	Reason    string     `json:"reason,omitempty"`  // why Redis did not take it, as redisdb.Reason says
	Arrived   time.Time  `json:"arrived"`           // the first time, by the wall clock
	Until     time.Time  `json:"until"`             // of no use afterwards
}

// letterFile is a dead letter as it lies on disk.
type letterFile struct {
	Version int `json:"version"`
	Letter
}

// Summary is what may be shown of a dead letter: no token and no user agent.
type Summary struct {
	Order    string    `json:"order"` // the part of the id before the first dot
	Provider string    `json:"provider"`
	Task     string    `json:"task,omitempty"`   // the provider's id; a callback may lack it
	Kind     string    `json:"kind"`             // token | error
	Code     string    `json:"code,omitempty"`   // of an error; printable ASCII, 100 characters at most
	Reason   string    `json:"reason,omitempty"` // why Redis did not take it; absent in letters of older versions
	Arrived  time.Time `json:"arrived"`          // UTC
	Age      int64     `json:"age_s"`            // since Arrived, in seconds
	Until    time.Time `json:"until"`            // UTC; of no use afterwards
	Size     int64     `json:"bytes"`            // of the file
}

// encode is the file of a dead letter. It fails where l is none.
func (l Letter) encode() ([]byte, error) {
	if err := l.fault(); err != nil {
		return nil, err
	}
	l.Arrived, l.Until = l.Arrived.UTC(), l.Until.UTC()
	// Only a time outside of years 0 to 9999 is an error here.
	return json.Marshal(letterFile{letterVersion, l})
}

// decodeSummary is the inverse of encode. Its errors quote nothing of data.
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

// fault tells why l is no dead letter; nil where it is one. JSON would change what is
// no UTF-8, and a changed token or id is of no use.
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

// shown is the part of a dead letter that is no secret, at the given moment.
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

// printable returns the first characters of a text that terminals and pages can show.
func printable(text string, most int) string {
	text = captcha.Printable(text)
	return text[:min(len(text), most)]
}
