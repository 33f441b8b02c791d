package purchase

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
	// deadLetterVersion is the form of a file. Another one is set aside.
	deadLetterVersion = 1
	// mostShownText is how many characters of a text from outside a list shows.
	mostShownText = 100
)

// deadLetter is a provider's callback that Redis could not take: a token that is
// paid for, or an error code. It must not be printed.
type deadLetter struct {
	Order     string     `json:"order"`
	Identity  captcha.ID `json:"identity"`
	Provider  string     `json:"provider"`
	Task      string     `json:"task"`
	Token     string     `json:"token,omitempty"`
	UserAgent string     `json:"user_agent,omitempty"`
	Code      string     `json:"code,omitempty"`    // instead of a token
	Refused   bool       `json:"refused,omitempty"` // with Code: a fault of the target's parameters
	Arrived   time.Time  `json:"arrived"`           // the first time, by the wall clock
	Until     time.Time  `json:"until"`             // of no use afterwards
}

// deadLetterFile is a dead letter as it lies on disk.
type deadLetterFile struct {
	Version int `json:"version"`
	deadLetter
}

// DeadLetter is what may be shown of a dead letter: no token and no user agent.
type DeadLetter struct {
	Order    string    `json:"order"` // the part of the id before the first dot
	Provider string    `json:"provider"`
	Kind     string    `json:"kind"`           // token | error
	Code     string    `json:"code,omitempty"` // of an error; printable ASCII, 100 characters at most
	Arrived  time.Time `json:"arrived"`        // UTC
	Until    time.Time `json:"until"`          // UTC; of no use afterwards
	Size     int64     `json:"bytes"`          // of the file
}

// encode is the file of a dead letter. It fails where l is none.
func (l deadLetter) encode() ([]byte, error) {
	if err := l.fault(); err != nil {
		return nil, err
	}
	l.Arrived, l.Until = l.Arrived.UTC(), l.Until.UTC()
	// Only a time outside of years 0 to 9999 is an error here.
	return json.Marshal(deadLetterFile{deadLetterVersion, l})
}

// decodeDeadLetter is the inverse of encode. Its errors quote nothing of data.
func decodeDeadLetter(data []byte) (deadLetter, error) {
	var l deadLetterFile
	if !utf8.Valid(data) || json.Unmarshal(data, &l) != nil {
		return deadLetter{}, errors.New("broken")
	}
	if l.Version != deadLetterVersion {
		return deadLetter{}, fmt.Errorf("of version %d", l.Version)
	}
	return l.deadLetter, l.fault()
}

// fault tells why l is no dead letter; nil where it is one. JSON would change what is
// no UTF-8, and a changed token or id is of no use.
func (l deadLetter) fault() error {
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

// shown is the part of a dead letter that is no secret.
func (l deadLetter) shown(size int64) DeadLetter {
	order, _, _ := strings.Cut(l.Order, ".")
	s := DeadLetter{
		Order: printable(order), Provider: printable(l.Provider), Kind: "token",
		Arrived: l.Arrived.UTC(), Until: l.Until.UTC(), Size: size,
	}
	if l.Token == "" {
		s.Kind, s.Code = "error", printable(l.Code)
	}
	return s
}

// printable makes a text fit for a terminal and a page: what others wrote may
// be in it.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), mostShownText)]
}
