package pool

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// fields parses a stored line, whose fields are separated by |. The last field may contain a | and
// stays in the field rest. Errors do not quote the line, because the line may contain a token.
type fields struct {
	rest string // the part of the line that is not parsed yet
	err  error  // error of the first field that is missing or malformed
}

// text returns the next field unchanged.
func (f *fields) text() string {
	text, rest, more := strings.Cut(f.rest, "|")
	if !more {
		f.fail("a stored line has too few fields")
	}
	f.rest = rest
	return text
}

// number returns the next field as an integer.
func (f *fields) number() int64 {
	n, err := strconv.ParseInt(f.text(), 10, 64)
	if err != nil {
		f.fail("a stored line has a text in the place of a number")
	}
	return n
}

// escaped returns the next field, which is stored query-escaped.
func (f *fields) escaped() string {
	text, err := url.QueryUnescape(f.text())
	if err != nil {
		f.fail("a stored line has a text that is not escaped")
	}
	return text
}

func (f *fields) fail(cause string) {
	if f.err == nil {
		f.err = errors.New("pool: " + cause)
	}
}

// utc converts a time in Unix ms.
func utc(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// elementTail returns the list element of a landed token without the first two fields, death and
// birth. settle.lua adds these two fields.
func elementTail(l Landing) string {
	return l.Order + "|" + l.Provider + "|" + url.QueryEscape(l.UserAgent) + "|" + l.Value
}

// parseElement parses an element of the list of tokens. The argument now is the time on Redis' clock
// in Unix ms.
func parseElement(element string, now int64) (Token, error) {
	f := fields{rest: element}
	dies, born := f.number(), f.number()
	t := Token{Order: f.text(), Provider: f.text(), UserAgent: f.escaped()}
	if f.err != nil {
		return Token{}, f.err
	}
	t.Value, t.element = f.rest, element
	t.Born, t.Dies, t.TTL = utc(born), utc(dies), time.Duration(dies-now)*time.Millisecond
	return t, nil
}
