package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// This file contains the parsers that the protocols share. A reply may have any content.

const (
	longTask = 128     // maximum length of a task's id, in bytes
	longText = 4 << 10 // maximum length of the text of a picture, in bytes
)

// IsAnswer reports whether a text is a possible solution for a CAPTCHA of type t.
func IsAnswer(t captcha.Type, text string) bool {
	switch {
	case captcha.HasNamed(t):
		return captcha.IsReadable(text, maxReply) && captcha.Named(t, text) != nil
	case t == captcha.Image:
		return captcha.IsReadable(text, longText)
	}
	return isGraphic(text, maxReply)
}

// solvedAnswer returns the answer for a solved task, or the error unexpectedReply if the text cannot be a
// solution.
func solvedAnswer(t captcha.Type, text string, extra captcha.Extra) (answer, error) {
	if !IsAnswer(t, text) {
		return answer{}, unexpectedReply
	}
	return answer{text: text, extra: extra}, nil
}

// expiry reads CapSolver's expireTime, in Unix milliseconds. If the time is not in this century, it returns zero.
func expiry(text string) time.Time {
	if ms, ok := finite(text); ok && ms > 1e12 && ms < 4e12 {
		return time.UnixMilli(int64(ms))
	}
	return time.Time{}
}

// namedValues returns the first candidate that contains the named values of a solution, as text, or ""
// if there is none. A candidate is a JSON object, a JSON string, or a JSON string that contains an
// object. namedValues removes the white space from an object.
func namedValues(t captcha.Type, candidates ...json.RawMessage) string {
	for _, raw := range candidates {
		text := cmp.Or(jsonText(raw), string(raw))
		var b bytes.Buffer
		if json.Compact(&b, []byte(text)) == nil {
			text = b.String()
		}
		if captcha.Named(t, text) != nil {
			return text
		}
	}
	return ""
}

// trimReply trims a reply. It returns an error for an HTML page or an empty reply. It ignores the
// Content-Type, because some services send JSON as text/html.
func trimReply(reply []byte) ([]byte, error) {
	reply = bytes.TrimSpace(bytes.TrimPrefix(reply, []byte("\xef\xbb\xbf")))
	switch {
	case len(reply) == 0:
		return nil, emptyReply
	case reply[0] == '<':
		return nil, htmlReply
	}
	return reply, nil
}

// decode parses the JSON value at the start of a reply. It ignores text after the value, such as a PHP
// warning. It does not return the error of encoding/json, because that error quotes the reply.
func decode(reply []byte, into any) error {
	err := json.NewDecoder(bytes.NewReader(reply)).Decode(into)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return cutReply
	}
	return unexpectedReply
}

// jsonText returns the text of a JSON string, or "" for any other JSON value.
func jsonText(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// textOrDigits returns the text of a JSON string, or the digits of a JSON number unchanged. It returns ""
// for any other JSON value.
func textOrDigits(raw json.RawMessage) string {
	if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		return string(raw)
	}
	return jsonText(raw)
}

// createdAnswer returns the answer to an accepted submission: the id of the task, which may be a JSON number or a JSON
// string. A string keeps its leading zeros.
func createdAnswer(raw json.RawMessage) (answer, error) {
	id := textOrDigits(raw)
	if id == "0" || jsonText(raw) == "" && strings.Trim(id, "0123456789") != "" || !isGraphic(id, longTask) {
		return answer{}, unexpectedReply
	}
	return answer{text: id}, nil
}

// amountAnswer returns the answer to a successful call whose result is a number, such as the balance.
func amountAnswer(raw json.RawMessage) (answer, error) {
	n, ok := finite(textOrDigits(raw))
	if !ok {
		return answer{}, unexpectedReply
	}
	return answer{number: n}, nil
}

// noNumber is the answer to threadsinfo if a proper reply has no number. noNumber is not an error, because an error
// would count towards an outage of the service.
var noNumber = answer{number: -1}

// refused returns the answer to a call that the service refused. A repeated report counts as a success.
func (q query) refused(code string) (answer, error) {
	switch {
	case q.action == report && strings.HasPrefix(code, wire.CodeDuplicate):
		return answer{}, nil
	case !isNotReady(code):
		return answer{code: code}, nil
	case q.action == poll:
		return answer{notReady: true}, nil
	case q.action == report:
		return answer{code: wire.CodeNotReady}, nil
	case q.action == threads:
		return noNumber, nil
	}
	return answer{}, unexpectedReply
}

// isNotReady reports whether a code means that the task is not ready. It accepts the protocol's
// misspelling CAPCHA and the correct spelling.
func isNotReady(word string) bool {
	return word == wire.CodeNotReady || word == "CAPTCHA_NOT_READY"
}
