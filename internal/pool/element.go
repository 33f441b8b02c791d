package pool

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// elementTail is what follows the two moments, which the script computes.
func elementTail(l Landing) string {
	return l.Order + "|" + l.Provider + "|" + url.QueryEscape(l.UserAgent) + "|" + l.Value
}

// parseElement reads one element of the list; now is Redis' clock in Unix ms.
func parseElement(element string, now int64) (Token, error) {
	var fields [6]string
	rest := element
	for i := range 5 {
		var more bool
		if fields[i], rest, more = strings.Cut(rest, "|"); !more {
			return Token{}, errors.New("pool: a stored token has too few fields")
		}
	}
	fields[5] = rest
	dies, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("pool: a stored token's death: %w", err)
	}
	born, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("pool: a stored token's birth: %w", err)
	}
	agent, err := url.QueryUnescape(fields[4])
	if err != nil {
		return Token{}, fmt.Errorf("pool: a stored token's user agent: %w", err)
	}
	return Token{
		Order: fields[2], Value: fields[5], Provider: fields[3], UserAgent: agent,
		Born: time.UnixMilli(born).UTC(), Dies: time.UnixMilli(dies).UTC(),
		TTL:     time.Duration(dies-now) * time.Millisecond,
		element: element,
	}, nil
}
