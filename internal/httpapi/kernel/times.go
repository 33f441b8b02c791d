package kernel

import (
	"regexp"
	"time"
)

// rfc3339 refuses what time.Parse takes beyond the standard, such as an hour of
// one digit.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ReadTime reads a moment in RFC 3339, with its zone.
func ReadTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && rfc3339.MatchString(text)
}

// Stamp formats a moment as everywhere in the API: RFC 3339 in UTC, to the millisecond.
// The zero time is "".
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
