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

// Stamp formats a moment; the zero time is "".
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(AppendTime(nil, t))
}

// AppendTime appends t as RFC 3339 in UTC to the millisecond, as everywhere in the API.
// Time.AppendFormat would parse its layout anew for each token. Years beyond 9999 do not
// occur.
func AppendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendDigits(b, year, 1000)
	b = appendDigits(append(b, '-'), int(month), 10)
	b = appendDigits(append(b, '-'), day, 10)
	b = appendDigits(append(b, 'T'), hour, 10)
	b = appendDigits(append(b, ':'), minute, 10)
	b = appendDigits(append(b, ':'), second, 10)
	b = appendDigits(append(b, '.'), t.Nanosecond()/int(time.Millisecond), 100)
	return append(b, 'Z')
}

// appendDigits appends n with leading zeros; first is the weight of the first digit.
func appendDigits(b []byte, n, first int) []byte {
	for ; first > 0; first /= 10 {
		b = append(b, byte('0'+n/first%10))
	}
	return b
}
