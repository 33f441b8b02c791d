package pool

import "strings"

// mostReason bounds what is kept of a reason, in bytes.
const mostReason = 500

// The words in front of a reason.
const (
	untoldFailed  = "failed"
	untoldRefused = "refused"
)

// text is what scripts keep of an answer; "" = there is none.
func (e *FailedError) text() string {
	if e == nil {
		return ""
	}
	word, reason := untoldFailed, e.Reason
	if e.Refused {
		word = untoldRefused
	}
	return word + "|" + cut(reason)
}

// cut shortens a reason to mostReason.
func cut(reason string) string {
	if len(reason) > mostReason {
		return strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return reason
}

// readFailed is the inverse of text.
func readFailed(text string) *FailedError {
	word, reason, _ := strings.Cut(text, "|")
	return &FailedError{Reason: reason, Refused: word == untoldRefused}
}
