package pool

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Pause is a pause of an identity's buying, made by an operator.
type Pause struct {
	By     string    // name of the key; "" = not known
	Reason string    // as the operator gave it; "" = none
	Until  time.Time // zero = until somebody resumes it
}

// text is a pause as it stands in Redis.
func (p Pause) text() string {
	until := int64(0)
	if !p.Until.IsZero() {
		until = p.Until.UnixMilli()
	}
	return strconv.FormatInt(until, 10) + "|" + url.QueryEscape(p.By) + "|" + url.QueryEscape(p.Reason)
}

// readPause reads it. What older versions left, or another program, says nothing.
func readPause(text string) (p Pause) {
	until, rest, _ := strings.Cut(text, "|")
	by, reason, is := strings.Cut(rest, "|")
	if !is {
		return p
	}
	if ms, err := strconv.ParseInt(until, 10, 64); err == nil && ms > 0 {
		p.Until = utc(ms)
	}
	p.By, _ = url.QueryUnescape(by)
	p.Reason, _ = url.QueryUnescape(reason)
	return p
}
