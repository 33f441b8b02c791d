package pool

import (
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
	fields := strings.SplitN(element, "|", 6)
	if len(fields) != 6 {
		return Token{}, fmt.Errorf("pool: a stored token has %d fields instead of 6", len(fields))
	}
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
		ID: fields[2], Value: fields[5], Provider: fields[3], UserAgent: agent,
		Born: time.UnixMilli(born).UTC(), Dies: time.UnixMilli(dies).UTC(),
		TTL:     time.Duration(dies-now) * time.Millisecond,
		element: element,
	}, nil
}
