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
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return word + "|" + reason
}

// readFailed is the inverse of text.
func readFailed(text string) *FailedError {
	word, reason, _ := strings.Cut(text, "|")
	return &FailedError{Reason: reason, Refused: word == untoldRefused}
}
